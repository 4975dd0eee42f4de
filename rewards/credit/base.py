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
from enum import Flag, StrEnum, auto
from typing import Protocol, Self

import numpy as np
import numpy.typing as npt

from agentic_gym.errors import ConfigError
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


class AttentionNeed(Flag):
    """Which facts of the policy's attention a part reads: only these are computed.

    All come from one forward pass. The deciding tokens alone leave it nearly as fast as it is; rows of every
    sampled token do not, and distances within them take the longest.

    >>> bool(AttentionNeed.NOTHING), AttentionNeed.TURNS in AttentionNeed.EVERYTHING
    (False, True)
    """

    NOTHING = 0

    DECIDING = auto()
    """:attr:`AttentionFacts.deciding`, from the rows of the deciding tokens."""

    TURNS = auto()
    """:attr:`AttentionFacts.turns`, from the rows of all sampled tokens."""

    INFLUENCE = auto()
    """:attr:`AttentionFacts.reach` and :attr:`AttentionFacts.influence`, from distances within these rows."""

    EVERYTHING = DECIDING | TURNS | INFLUENCE

    @classmethod
    def of(cls, declared: bool | AttentionNeed) -> Self:
        """What a part's ``needs_attention`` asks for: True asks for everything, False for nothing.

        Raises:
            ConfigError: it is neither a bool nor one of these.
        """
        if isinstance(declared, cls):
            return declared
        if isinstance(declared, bool):
            return cls.EVERYTHING if declared else cls.NOTHING
        raise ConfigError(
            f"needs_attention={declared!r} must be True (everything), False, or of AttentionNeed: "
            "DECIDING, TURNS, INFLUENCE, or several joined by |"
        )


class AttentionFacts:
    """The policy's attention within one trajectory: over its n sampled tokens and the k turns that have some.

    Only what was asked for is known (:class:`AttentionNeed`); to read anything else is a ``ConfigError``.

    Args:
        deciding: see the property; None: not asked for. Likewise the others.
        turns: see the property.
        reach: see the property.
        influence: see the property.
    """

    __slots__ = ("_deciding", "_influence", "_reach", "_turns")

    def __init__(
        self,
        deciding: Floats | None = None,
        turns: Floats | None = None,
        reach: Floats | None = None,
        influence: Floats | None = None,
    ) -> None:
        self._deciding, self._turns = deciding, turns
        self._reach, self._influence = reach, influence

    @property
    def deciding(self) -> Floats:
        """Attention that the deciding tokens (last edit or submission) pay to each sampled token, mean over
        heads, layers and deciding tokens.  # [n]"""
        return _asked(self._deciding, "deciding", AttentionNeed.DECIDING)

    @property
    def turns(self) -> Floats:
        """Attention that the sampled tokens of a turn pay to those of each other turn, summed over the
        latter; 0 where not earlier.  # [k, k]"""
        return _asked(self._turns, "turns", AttentionNeed.TURNS)

    @property
    def reach(self) -> Floats:
        """Mean distance, capped, at which each sampled token attends (WAAD).  # [n]"""
        return _asked(self._reach, "reach", AttentionNeed.INFLUENCE)

    @property
    def influence(self) -> Floats:
        """Mean attention that each sampled token receives from a window of later ones (FAI).  # [n]"""
        return _asked(self._influence, "influence", AttentionNeed.INFLUENCE)


def _asked(known: Floats | None, name: str, need: AttentionNeed) -> Floats:
    if known is None:
        raise ConfigError(
            f"attention facts hold no {name!r}, for which no part of the credit asked: a part that reads "
            f"it declares needs_attention = AttentionNeed.{need.name}, or True for everything"
        )
    return known


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
        needs_attention: which facts of its attention the batch must have; True: all.
    """

    @property
    def invariance(self) -> Invariance:
        """See the class."""
        ...

    @property
    def needs_attention(self) -> bool | AttentionNeed:
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
        needs_attention: which facts of its attention the batch must have; True: all.
    """

    @property
    def needs_attention(self) -> bool | AttentionNeed:
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
