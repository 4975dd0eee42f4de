"""Attention of chosen tokens, at the cost of a forward pass.

Credit assignment asks at what the tokens that decided an episode looked. ``output_attentions=True`` answers
with every weight of every layer, by eager attention: four times the seconds at 4,096 tokens, and memory
quadratic in them (``benchmarks/attention_rows.py``). Here a pass with fused attention computes the wanted
rows beside it (:mod:`~agentic_gym.trainers.attention_watch`) and keeps means
(:mod:`~agentic_gym.trainers.attention_sums`).

The row of a token is the one that predicted it: the position before it. So a row says at what the policy
looked when it chose the token, and nothing behind the last chosen token is computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from agentic_gym.errors import ConfigError
from agentic_gym.trainers.attention_sums import RowMeans, Sums
from agentic_gym.trainers.attention_watch import Heads, Layers, Segment, watching
from agentic_gym.trainers.batching import Layout, Row, collate, plan
from agentic_gym.types import Trajectory

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class RowAttention:
    """At what chosen tokens of one trajectory looked.

    Attributes:
        weights: of each of its positions, mean over layers, heads and the tokens of a group; each
            group adds up to 1 (less where the model has attention sinks).  # [G, T]
        problem: why they are not to be used, and are then 0; None if all is well.
    """

    weights: Floats
    problem: str | None = None


def attention_of(
    model: nn.Module,
    trajectories: Sequence[Trajectory],
    tokens: Sequence[Ints],
    *,
    groups: Sequence[Ints] | None = None,
    layout: Layout = "packed",
    token_budget: int = 4096,
    layers: Layers = "all",
    heads: Heads = "all",
    also: Sums | None = None,
) -> list[RowAttention]:
    """At what chosen tokens looked: one forward pass, without gradient and without the output layer.

    The model stays in the mode that it is in; with dropout on, the answer is a random one.

    Args:
        model: a causal LM of transformers, or the PEFT model around it.
        trajectories: any.
        tokens: of each trajectory, the positions of the chosen tokens, ascending, all > 0; for
            instance :func:`~agentic_gym.rewards.credit.deciding.deciding_rows`.  # [R]
        groups: of each trajectory, the group of each chosen token, for instance its turn counted from
            0 without gaps; one group by default.  # [R]
        layout: how trajectories are laid out; ``packed`` only for full attention in every layer.
        token_budget: most tokens of a micro-batch.
        layers: see :func:`~agentic_gym.trainers.attention_watch.watching`.
        heads: see there.
        also: receives all weights too, by number of the trajectory: for instance
            :class:`~agentic_gym.trainers.attention_sums.RowDistances`.

    Returns:
        One for each trajectory. A ``problem`` is that it has no token stream, that no token of it was
        chosen, or that a weight is not finite: a NaN in the model, or a row that sees nothing.

    Raises:
        ConfigError: positions or groups are impossible, or the model cannot be watched.
    """
    rows: dict[int, Row] = {}
    for number, (trajectory, chosen) in enumerate(zip(trajectories, tokens, strict=True)):
        if trajectory.tokens is not None and len(chosen):
            rows[number] = _row(trajectory, np.asarray(chosen, np.int64))
    device = next(model.parameters()).device
    grouped = {n: _grouped(rows[n], None if groups is None else groups[n]) for n in rows}
    means = RowMeans({n: torch.as_tensor(group, device=device) for n, group in grouped.items()})
    sums: Sums = means if also is None else _Both(means, also)
    numbers = list(rows)
    for part in plan([rows[n].length for n in numbers], token_budget=token_budget, layout=layout):
        members = {numbers[i]: rows[numbers[i]] for i in part}
        _look(model, members, sums, layout=layout, device=device, layers=layers, heads=heads)
    return [
        _answer(trajectory, means.mean(number) if number in rows else None)
        for number, trajectory in enumerate(trajectories)
    ]


@torch.no_grad()
def _look(
    model: nn.Module,
    rows: dict[int, Row],
    sums: Sums,
    *,
    layout: Layout,
    device: torch.device,
    layers: Layers,
    heads: Heads,
) -> None:
    """One forward pass over a micro-batch."""
    micro = collate(list(rows.values()), layout=layout, device=device)
    offsets = np.cumsum([0, *(row.length for row in rows.values())]).tolist()
    packed = micro.offsets is not None
    segments = [
        Segment(
            number,
            0 if packed else line,
            offsets[line] if packed else 0,
            offsets[line + 1] if packed else row.length,
            torch.as_tensor(row.sampled - 1, device=device),
        )
        for line, (number, row) in enumerate(rows.items())
    ]
    kwargs: dict[str, Any] = {}
    if packed:
        kwargs = {"cu_seq_lens_q": micro.offsets, "cu_seq_lens_k": micro.offsets}
        kwargs |= {"max_length_q": micro.longest, "max_length_k": micro.longest}
    with (
        watching(model, segments, sums, packed=packed, layers=layers, heads=heads),
        _without_logits(model),
    ):
        model(
            input_ids=micro.input_ids,
            attention_mask=micro.attention_mask,
            position_ids=micro.position_ids,
            use_cache=False,
            **kwargs,
        )


@contextmanager
def _without_logits(model: nn.Module) -> Iterator[None]:
    """Sends a single position through the output layer."""

    def one(_: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (args[0][:1, :1], *args[1:])

    output = cast(nn.Module, cast(Any, model).get_output_embeddings())
    handle = output.register_forward_pre_hook(one)
    try:
        yield
    finally:
        handle.remove()


def _row(trajectory: Trajectory, chosen: Ints) -> Row:
    assert trajectory.tokens is not None
    ids = trajectory.tokens.ids.astype(np.int64)
    if chosen[0] < 1 or chosen[-1] >= len(ids) or (np.diff(chosen) <= 0).any():
        raise ConfigError(
            f"trajectory {trajectory.trajectory_id} has {len(ids)} tokens: positions of chosen ones must "
            f"ascend from at least 1 to at most {len(ids) - 1}; got {chosen.tolist()[:8]}"
        )
    return Row(ids, chosen, 0)


def _grouped(row: Row, group: Ints | None) -> Ints:
    if group is None:
        return np.zeros(len(row.sampled), np.int64)
    group = np.asarray(group, np.int64)
    if len(group) != len(row.sampled) or group.min() < 0 or (np.bincount(group) == 0).any():
        raise ConfigError(
            f"{len(row.sampled)} chosen tokens have the groups {group.tolist()[:8]}: give each one, "
            "counted from 0 without gaps"
        )
    return group


def _answer(trajectory: Trajectory, mean: Tensor | None) -> RowAttention:
    length = 0 if trajectory.tokens is None else len(trajectory.tokens)
    if mean is None:
        problem = "no token of it was chosen" if length else "it has no token stream"
        return RowAttention(np.zeros((1, length)), problem)
    weights = np.zeros((len(mean), length))
    weights[:, : mean.shape[1]] = mean.double().cpu().numpy()
    if not np.isfinite(weights).all():
        return RowAttention(np.zeros_like(weights), "its attention weights are not finite")
    return RowAttention(weights)


@dataclass(frozen=True, slots=True)
class _Both:
    first: Sums
    second: Sums

    def add(self, layer: int, segment: int, at: slice, rows_R: Tensor, weights_HRS: Tensor) -> None:
        for sums in (self.first, self.second):
            sums.add(layer, segment, at, rows_R, weights_HRS)
