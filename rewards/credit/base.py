"""Where in an episode its rewards fall: the language of credit assigners.

An episode earns its rewards at the ends of turns, most of them at the very end. An assigner says what each
sampled token earns instead; an estimator (:mod:`~agentic_gym.rewards.credit.estimators`) makes advantages of
it, and a modifier may change those. All see a batch as flat arrays over its sampled tokens, in the order of
its trajectories. Tokens of observations are in none of them, so they can get no credit.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import numpy as np
import numpy.typing as npt

from agentic_gym.types import Trajectory

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Invariance(StrEnum):
    """What an assigner leaves as it was."""

    OPTIMAL_POLICY = "the optimal policy"
    """Potential differences with a potential of 0 at the end: the same policies are optimal (Ng, Harada and
    Russell 1999, theorem 1)."""

    RETURN = "the undiscounted return"
    """Rewards are moved within the episode: its sum stays, what is to go at each step does not."""

    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, eq=False)
class AttentionFacts:
    """The policy's attention within one trajectory: over its n sampled tokens and the k turns that have some.

    Attributes:
        deciding: attention that the deciding tokens (last edit or submission) pay to each sampled
            token, mean over heads, layers and deciding tokens.  # [n]
        turns: attention that the sampled tokens of a turn pay to those of each other turn, summed
            over the latter; 0 where not earlier.  # [k, k]
        reach: mean distance, capped, at which each sampled token attends (WAAD).  # [n]
        influence: mean attention that each sampled token receives from a window of later ones (FAI).  # [n]
    """

    deciding: Floats
    turns: Floats
    reach: Floats
    influence: Floats


@dataclass(frozen=True, slots=True, eq=False)
class CreditBatch:
    """What an assigner sees of a batch.

    Attributes:
        trajectories: of the batch.
        parts: where the sampled tokens of each lie in the flat arrays.
        turns: of each sampled token, ascending within a trajectory.  # [N]
        gamma: discount of a turn.
        attention: of each trajectory, None where it could not be had; empty where nobody needs it.
        facts: what assigners count, for the metrics.
    """

    trajectories: Sequence[Trajectory]
    parts: Sequence[slice]
    turns: Ints
    gamma: float = 1.0
    attention: Sequence[AttentionFacts | None] = ()
    facts: dict[str, float] = field(default_factory=dict)

    def count(self, name: str, number: float = 1.0) -> None:
        """Adds to a fact."""
        self.facts[name] = self.facts.get(name, 0.0) + number


def batch_of(
    trajectories: Sequence[Trajectory],
    *,
    gamma: float = 1.0,
    attention: Sequence[AttentionFacts | None] = (),
) -> CreditBatch:
    """A batch of trajectories that each have a token stream.

    Args:
        trajectories: of the batch.
        gamma: discount of a turn.
        attention: of each.
    """
    # The first token of a stream counts as given, as in training: nothing precedes it.
    streams = [t.tokens for t in trajectories if t.tokens is not None]
    turns = [stream.turns[1:][stream.sampled[1:]] for stream in streams]
    ends = np.cumsum([0, *(len(part) for part in turns)])
    return CreditBatch(
        trajectories,
        [slice(int(a), int(b)) for a, b in itertools.pairwise(ends)],
        np.concatenate([*turns, np.zeros(0)]).astype(np.int64),
        gamma,
        attention,
    )


class CreditAssigner(Protocol):
    """Gives every sampled token its reward.

    Attributes:
        invariance: what stays as it was.
        needs_attention: whether the batch must have its attention.
    """

    @property
    def invariance(self) -> Invariance:
        """See the class."""
        ...

    @property
    def needs_attention(self) -> bool:
        """See the class."""
        ...

    def assign(self, batch: CreditBatch, rewards_N: Floats) -> Floats:
        """New rewards of the sampled tokens.

        Args:
            batch: whose tokens.
            rewards_N: as an assigner before this one left them; not to be changed.  # [N]

        Returns:
            Rewards.  # [N]
        """
        ...


class AdvantageModifier(Protocol):
    """Changes advantages; what it leaves as it was is never the optimal policy.

    Attributes:
        needs_attention: whether the batch must have its attention.
    """

    @property
    def needs_attention(self) -> bool:
        """See the class."""
        ...

    def modify(self, batch: CreditBatch, advantages_N: Floats) -> Floats:
        """New advantages of the sampled tokens.  # [N]"""
        ...


def turn_starts(turns_N: Ints) -> npt.NDArray[np.bool_]:
    """True at the first sampled token of each turn, where the value of a turn is read.

    Args:
        turns_N: turn of each sampled token, ascending.  # [N]
    """
    starts = np.ones(len(turns_N), dtype=bool)
    starts[1:] = turns_N[1:] != turns_N[:-1]
    return starts


def last_tokens(turns_N: Ints, count: int) -> Ints:
    """Position of the last sampled token of each turn; of a turn without any, the last one before it, or 0.

    Args:
        turns_N: turn of each sampled token of one trajectory, ascending, at least one.  # [N]
        count: turns of the trajectory.

    Returns:
        One position a turn.  # [count]
    """
    positions = np.searchsorted(turns_N, np.arange(count), side="right") - 1
    return np.maximum(positions, 0).astype(np.int64)
