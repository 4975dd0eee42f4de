"""What credit assigners are told of the policy's attention, from one pass without gradient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from agentic_gym.rewards.credit.base import AttentionFacts, AttentionNeed
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
    needs: bool | AttentionNeed = True,
    layout: Layout = "packed",
    token_budget: int = 4096,
    layers: Layers = 0.5,
) -> list[AttentionFacts | None]:
    """Attention facts of trajectories that each have a sampled token behind their first.

    Args:
        model: a causal LM of transformers, or the PEFT model around it.
        trajectories: of a batch.
        needs: which facts; nothing else is computed, and without any no pass is made.
        layout: how trajectories are laid out.
        token_budget: most tokens of a micro-batch.
        layers: which; the middle half by default.

    Returns:
        One a trajectory; None where what was looked at of its attention is not finite.
    """
    need = AttentionNeed.of(needs)
    if not need:
        return [AttentionFacts() for _ in trajectories]
    wanted = [_Rows.of(trajectory, need) for trajectory in trajectories]
    distances = RowDistances() if AttentionNeed.INFLUENCE in need else None
    rows = attention_of(
        model,
        trajectories,
        [one.chosen for one in wanted],
        groups=[one.groups for one in wanted],
        layout=layout,
        token_budget=token_budget,
        layers=layers,
        also=distances,
    )
    return [
        None
        if found.problem is not None
        else one.facts(need, found, None if distances is None else distances.distances(number))
        for number, (one, found) in enumerate(zip(wanted, rows, strict=True))
    ]


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """What is looked at in one trajectory.

    Attributes:
        sampled: positions of its sampled tokens.  # [n]
        decided: of these, the deciding ones.  # [d]
        chosen: tokens whose rows are computed: the deciding ones, or all that were sampled.  # [R]
        groups: of each of them: its turn, those that have some counted from 0; or one for all.  # [R]
    """

    sampled: Ints
    decided: Ints
    chosen: Ints
    groups: Ints

    @classmethod
    def of(cls, trajectory: Trajectory, need: AttentionNeed) -> _Rows:
        sampled, decided = _sampled(trajectory), deciding_rows(trajectory)
        if need == AttentionNeed.DECIDING:
            return cls(sampled, decided, decided, np.zeros(len(decided), np.int64))
        return cls(sampled, decided, sampled, _numbered(trajectory, sampled))

    def facts(
        self, need: AttentionNeed, found: RowAttention, distances: Distances | None
    ) -> AttentionFacts:
        weights = found.weights[:, self.sampled]  # of each group to each sampled token
        deciding = turns = reach = influence = None
        if AttentionNeed.DECIDING in need:
            group = self.groups[np.searchsorted(self.chosen, self.decided[0])]
            # Only what was sampled before: the deciding tokens would mostly find themselves.
            deciding = np.where(self.sampled < self.decided[0], weights[group], 0.0)
        if AttentionNeed.TURNS in need:
            sums = [weights[:, self.groups == k].sum(axis=1) for k in range(len(weights))]
            turns = np.tril(np.stack(sums, axis=1), -1)
        if distances is not None:
            reach, influence = _by_heads(distances, self.sampled)
        return AttentionFacts(deciding, turns, reach, influence)


def _sampled(trajectory: Trajectory) -> Ints:
    assert trajectory.tokens is not None
    return (np.flatnonzero(trajectory.tokens.sampled[1:]) + 1).astype(np.int64)


def _numbered(trajectory: Trajectory, at: Ints) -> Ints:
    """Turn of each sampled token, those that have some counted from 0."""
    assert trajectory.tokens is not None
    return np.unique(trajectory.tokens.turns[at], return_inverse=True)[1].astype(np.int64)


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
