"""What credit assigners are told of the policy's attention, from one pass without gradient."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from agentic_gym.rewards.credit.base import AttentionFacts
from agentic_gym.rewards.credit.deciding import deciding_rows
from agentic_gym.trainers.attention_rows import RowAttention, attention_of
from agentic_gym.trainers.attention_sums import Distances, RowDistances
from agentic_gym.trainers.attention_watch import Layers
from agentic_gym.trainers.batching import Layout
from agentic_gym.types import Trajectory

Ints = npt.NDArray[np.int64]

_SHARE = 0.3
"""Of the heads: the short-sighted ones say what was planned, the far-sighted what leads (2510.13554)."""


def attention_facts(
    model: nn.Module,
    trajectories: Sequence[Trajectory],
    *,
    layout: Layout = "packed",
    token_budget: int = 4096,
    layers: Layers = 0.5,
) -> list[AttentionFacts | None]:
    """Attention facts of trajectories that each have a sampled token behind their first.

    Args:
        model: a causal LM of transformers, or the PEFT model around it.
        trajectories: of a batch.
        layout: how trajectories are laid out.
        token_budget: most tokens of a micro-batch.
        layers: which; the middle half by default.

    Returns:
        One a trajectory; None where its attention is not finite.
    """
    sampled = [_sampled(trajectory) for trajectory in trajectories]
    turns = [_numbered(t, at) for t, at in zip(trajectories, sampled, strict=True)]
    distances = RowDistances()
    rows = attention_of(
        model,
        trajectories,
        sampled,
        groups=turns,
        layout=layout,
        token_budget=token_budget,
        layers=layers,
        also=distances,
    )
    return [
        None
        if found.problem is not None
        else _facts(trajectory, at, turn, found, distances.distances(number))
        for number, (trajectory, at, turn, found) in enumerate(
            zip(trajectories, sampled, turns, rows, strict=True)
        )
    ]


def _sampled(trajectory: Trajectory) -> Ints:
    assert trajectory.tokens is not None
    return (np.flatnonzero(trajectory.tokens.sampled[1:]) + 1).astype(np.int64)


def _numbered(trajectory: Trajectory, at: Ints) -> Ints:
    """Turn of each sampled token, those that have some counted from 0."""
    assert trajectory.tokens is not None
    return np.unique(trajectory.tokens.turns[at], return_inverse=True)[1].astype(np.int64)


def _facts(
    trajectory: Trajectory, at: Ints, turn: Ints, found: RowAttention, distances: Distances
) -> AttentionFacts:
    weights = found.weights[:, at]  # of each turn to each sampled token
    count = len(weights)
    to_turns = np.stack([weights[:, turn == k].sum(axis=1) for k in range(count)], axis=1)
    decided = deciding_rows(trajectory)
    # Only what was sampled before: the deciding tokens would mostly find themselves.
    before = np.where(at < decided[0], weights[turn[np.searchsorted(at, decided[0])]], 0.0)
    reach, influence = _by_heads(distances, at)
    return AttentionFacts(before, np.tril(to_turns, -1), reach, influence)


def _by_heads(
    distances: Distances, at: Ints
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Reach of each sampled token by the short-sighted heads, its influence by the far-sighted ones."""
    order = torch.argsort(distances.span.flatten(), stable=True)
    count = max(1, round(_SHARE * len(order)))
    reach = distances.reach.flatten(0, 1)[order[:count]].mean(0)
    influence = distances.influence.flatten(0, 1)[order[-count:]].mean(0)
    # Nothing behind the last chosen token is computed, so its own position is missing at the end.
    padded = torch.zeros(int(at[-1]) + 1, dtype=influence.dtype, device=influence.device)
    padded[: len(influence)] = influence[: len(padded)]
    return reach.double().cpu().numpy(), padded.double().cpu().numpy()[at]
