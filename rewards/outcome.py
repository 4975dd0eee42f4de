"""Rewards from the end of an episode and from the visible tests on the way. Pure arithmetic.

The parts add up over an episode to ``solve`` if it was solved or ``failed`` if what was submitted does not
solve it, plus ``progress`` times the change of the visible test fraction, plus ``turn`` times the number of
turns, plus ``mishap`` times the number of turns in which something went wrong.
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass

from agentic_gym.errors import ConfigError
from agentic_gym.types import Outcome


@dataclass(frozen=True, slots=True)
class RewardConfig:
    """Weights of the reward of one episode.

    Attributes:
        solve: reward of solving, by the hidden tests.
        failed: reward of submitting what they refuse, at most 0. Where a turn costs something, giving up can
            pay without it, above all with a small discount.
        progress: weight of the change of the visible test fraction.
        turn: reward of each turn, at most 0.
        mishap: reward of a turn that went wrong, at most 0: no call could be read or one was refused, or an
            edit left code from which the visible tests cannot be collected. Dense where ``solve`` is not, so
            a small batch teaches to write valid calls; a call that would change nothing is no mishap.
    """

    solve: float = 1.0
    failed: float = 0.0
    progress: float = 0.2
    turn: float = -0.01
    mishap: float = 0.0

    def __post_init__(self) -> None:
        for name in ("solve", "failed", "progress", "turn", "mishap"):
            value = getattr(self, name)
            number = isinstance(value, numbers.Real) and not isinstance(value, bool)
            if not number or not math.isfinite(value):
                raise ConfigError(f"reward.{name}={value!r} is not a finite number")
        if self.turn > 0:
            raise ConfigError(
                f"reward.turn={self.turn} would pay for long episodes: give 0 or less"
            )
        for name in ("failed", "mishap"):
            value = getattr(self, name)
            if value > 0:
                raise ConfigError(f"reward.{name}={value} would pay for failing: give 0 or less")


def outcome_reward(config: RewardConfig, outcome: Outcome | None) -> float:
    """Reward of the last step: ``solve`` or ``failed``, as the hidden tests decided, else 0.

    An attempt to fool the grader is a failure; an episode that ran out of turns is none.

    >>> outcome_reward(RewardConfig(), Outcome.SOLVED), outcome_reward(RewardConfig(), None)
    (1.0, 0.0)
    """
    if outcome is Outcome.SOLVED:
        return config.solve
    return config.failed if outcome in (Outcome.FAILED, Outcome.SUSPECTED_HACK) else 0.0


def progress_reward(config: RewardConfig, before: float, after: float) -> float:
    """Potential difference of a step, undiscounted: ``progress`` x (fraction after - before).

    Over an episode it telescopes to the last fraction minus the first, whatever the path, so going back and
    forth earns nothing. The last potential is not taken back, which Ng, Harada and Russell (1999, "Policy
    invariance under reward transformations", section 3) need for an unchanged optimal policy: a repair that
    passes more visible tests stays worth a little more, also if it is not complete. Keep ``progress`` well
    under ``solve``.

    Args:
        config: weights.
        before: fraction of the visible tests that passed when last run before the step, in [0, 1].
        after: the same after the step.
    """
    return config.progress * (after - before)


def turn_reward(config: RewardConfig, *, mishap: bool = False) -> float:
    """Reward of one turn.

    Args:
        config: weights.
        mishap: whether it went wrong.
    """
    return config.turn + (config.mishap if mishap else 0.0)
