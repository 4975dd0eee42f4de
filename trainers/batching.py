"""Trajectories of very different lengths as tensors, without computing on padding.

Three layouts, all giving the same loss and gradient:

``packed``   rows laid end to end in one line of tokens; attention runs within each row. No padding.
``sorted``   rows sorted by length, cut into padded micro-batches under a token budget: for models
             whose attention cannot be cut into rows (sliding windows, state spaces).
``plain``    one padded rectangle, as long as its longest row: what most trainers do, kept for
             comparison (``benchmarks/batching.py``).

Which token trains is decided by provenance (:attr:`TokenStream.sampled`), never by comparing ids
with a padding id, so a padding id equal to the end-of-turn id is harmless. Only the positions that
predict a sampled token reach the output layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from agentic_gym.errors import ConfigError
from agentic_gym.types import Trajectory

Layout = Literal["packed", "sorted", "plain"]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One trajectory, ready to be laid out.

    Attributes:
        ids: all its tokens.  # [T]
        sampled: positions of the tokens that the policy made, ascending, all > 0.  # [N]
        first: index of its first sampled token in the flat arrays of the batch.
    """

    ids: Ints
    sampled: Ints
    first: int

    @property
    def length(self) -> int:
        """Tokens that must be read to predict every sampled one: the last is only predicted."""
        return int(self.sampled[-1])


def make_rows(trajectories: Sequence[Trajectory]) -> list[Row]:
    """Rows of trajectories; their sampled tokens are numbered through the batch in this order.

    Args:
        trajectories: each with a token stream and at least one sampled token (see
            :func:`trainable`).
    """
    rows, first = [], 0
    for trajectory in trajectories:
        stream = trajectory.tokens
        if stream is None:
            raise ConfigError(
                f"trajectory {trajectory.trajectory_id} has no token stream: "
                "only token policies can be trained"
            )
        sampled = np.flatnonzero(stream.sampled[1:]) + 1
        rows.append(Row(stream.ids.astype(np.int64), sampled.astype(np.int64), first))
        first += len(sampled)
    return rows


def trainable(trajectory: Trajectory) -> bool:
    """Whether a trajectory has a token that the policy sampled and that something precedes."""
    return trajectory.tokens is not None and bool(trajectory.tokens.sampled[1:].any())


@dataclass(frozen=True, slots=True, eq=False)
class MicroBatch:
    """What one forward pass reads.

    Attributes:
        input_ids: int64 ``[B, T]``; ``[1, T]`` when packed.
        position_ids: of each token within its row.  # [B, T]
        attention_mask: True on tokens that exist; None when packed.  # [B, T]
        offsets: where each packed row starts, and the end; None when padded.  # int32 [R + 1]
        longest: tokens of the longest row.
        select: positions in the flattened ``[B·T]`` that predict a sampled token.  # [N]
        targets: the sampled tokens.  # [N]
        index: their numbers in the flat arrays of the batch.  # [N]
        last: positions in the flattened ``[B·T]`` of each row's last token.  # [R]
    """

    input_ids: Tensor
    position_ids: Tensor
    attention_mask: Tensor | None
    offsets: Tensor | None
    longest: int
    select: Tensor
    targets: Tensor
    index: Tensor
    last: Tensor


def plan(
    lengths: Sequence[int], *, token_budget: int, layout: Layout = "packed"
) -> list[list[int]]:
    """Cuts rows into micro-batches.

    Args:
        lengths: tokens of each row.
        token_budget: most tokens of a micro-batch, padding included; a longer row goes alone.
        layout: ``plain`` puts everything into one.

    Returns:
        Indices of each micro-batch; every row exactly once. The largest come first, so that a lack
        of memory shows at once.
    """
    if token_budget < 1:
        raise ConfigError(f"token_budget is {token_budget}: give at least 1 token")
    order = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
    if layout == "plain":
        return [list(range(len(lengths)))] if lengths else []
    if layout == "sorted":
        return _cut_rectangles(order, lengths, token_budget)
    return _fill_lines(order, lengths, token_budget)


def _cut_rectangles(order: list[int], lengths: Sequence[int], budget: int) -> list[list[int]]:
    batches: list[list[int]] = []
    for i in order:
        # Lengths descend, so the first row of a batch is its width.
        if batches and (len(batches[-1]) + 1) * lengths[batches[-1][0]] <= budget:
            batches[-1].append(i)
        else:
            batches.append([i])
    return batches


def _fill_lines(order: list[int], lengths: Sequence[int], budget: int) -> list[list[int]]:
    """First fit, longest first: within 22 % of the fewest possible micro-batches."""
    batches: list[list[int]] = []
    used: list[int] = []
    for i in order:
        for b, tokens in enumerate(used):
            if tokens + lengths[i] <= budget:
                batches[b].append(i)
                used[b] += lengths[i]
                break
        else:
            batches.append([i])
            used.append(lengths[i])
    return batches


def collate(
    rows: Sequence[Row],
    *,
    layout: Layout,
    device: torch.device | str = "cpu",
    whole: bool = False,
) -> MicroBatch:
    """Lays rows out as tensors.

    Args:
        rows: of one micro-batch, at least one.
        layout: of the tensors.
        device: where they go.
        whole: keep what follows the last sampled token too (for the value of the final state);
            otherwise it is cut off, since nothing that trains depends on it.
    """
    lengths = [len(row.ids) if whole else row.length for row in rows]
    if layout == "packed":
        starts = np.concatenate([[0], np.cumsum(lengths)])
        ids = np.concatenate([row.ids[:n] for row, n in zip(rows, lengths, strict=True)])[None]
        positions = np.concatenate([np.arange(n) for n in lengths])[None]
        mask, offsets = None, torch.as_tensor(starts, dtype=torch.int32, device=device)
    else:
        width = max(lengths)
        starts = np.arange(len(rows)) * width
        ids = np.zeros((len(rows), width), np.int64)
        mask = np.zeros((len(rows), width), np.bool_)
        for b, (row, n) in enumerate(zip(rows, lengths, strict=True)):
            ids[b, :n], mask[b, :n] = row.ids[:n], True
        positions = np.tile(np.arange(width), (len(rows), 1))
        offsets = None

    def tensor(array: npt.NDArray[np.generic]) -> Tensor:
        return torch.as_tensor(np.ascontiguousarray(array), device=device)

    return MicroBatch(
        input_ids=tensor(ids),
        position_ids=tensor(positions),
        attention_mask=None if mask is None else tensor(mask),
        offsets=offsets,
        longest=max(lengths),
        select=tensor(np.concatenate([starts[b] + row.sampled - 1 for b, row in enumerate(rows)])),
        targets=tensor(np.concatenate([row.ids[row.sampled] for row in rows])),
        index=tensor(np.concatenate([row.first + np.arange(len(row.sampled)) for row in rows])),
        last=tensor(np.asarray([starts[b] + n - 1 for b, n in enumerate(lengths)])),
    )
