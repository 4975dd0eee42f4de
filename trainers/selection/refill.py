"""Dynamic sampling: groups whose rewards are all equal are refused, and others are played in their place.

Such a group has a group-relative advantage of exactly 0, so it only makes the batch smaller (DAPO, arXiv
2503.14476, §3.2). Three things to know:

- It is a filter on the samples that are trained, so the mean reward of what is kept is not the tasks'. With
  group-relative advantages that is harmless, since what is left out has no gradient. With a value head it
  is not: a solved group teaches the critic what to expect, and without it the critic learns a mean that is
  wrong.
- "Equal" is said of the rewards that are given. Rewards with a length penalty or a process part are hardly
  ever equal; give outcome rewards to refuse groups by outcome.
- It can go on for ever when all tasks are too hard. verl ends the run then ("Generated too many. Please
  check your data"; DAPO issues 22 and 28). Here, after ``max_in_a_row`` refusals the next group is kept,
  whatever it is, so a batch costs at most ``max_in_a_row + 1`` times its groups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal

from agentic_gym.errors import ConfigError
from agentic_gym.trainers.selection.base import GroupResult

REFUSED: Final = "zero_variance"
"""Reason with which the members of a refused group are dropped."""

_EQUAL = 1e-9
"""Rewards that differ by no more are equal: sums of the same numbers in another order differ by rounding."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a group.

    Attributes:
        keep: it may be trained.
        reason: "signal", or "zero_variance", or "cap": it has no signal and is kept all the same.
    """

    keep: bool
    reason: Literal["signal", "zero_variance", "cap"]


def carries_signal(rewards: Sequence[float]) -> bool:
    """Whether a group has a group-relative advantage other than 0.

    A single trajectory has no group to be compared with; there is nothing to refuse it for.

    >>> carries_signal([0.0, 1.0]), carries_signal([1.0, 1.0]), carries_signal([1.0])
    (True, False, True)

    Args:
        rewards: of its trajectories.
    """
    return len(rewards) < 2 or not max(rewards) - min(rewards) <= _EQUAL


class Refill:
    """Says of each finished group whether it is kept.

    Args:
        max_in_a_row: groups refused with none kept between; 0 refuses nothing.

    Raises:
        ConfigError: it is negative.
    """

    def __init__(self, *, max_in_a_row: int = 8) -> None:
        if max_in_a_row < 0:
            raise ConfigError(f"max_in_a_row={max_in_a_row} must not be negative")
        self._max = max_in_a_row
        self._in_a_row = 0
        self._counts = {"signal": 0, REFUSED: 0, "cap": 0}
        self._refused: dict[int, GroupResult] = {}

    def judge(self, result: GroupResult, rewards: Sequence[float]) -> Verdict:
        """The verdict on a finished group; once refused, it stays refused (a restart may ask again).

        Args:
            result: of the group.
            rewards: of those of its trajectories that count.
        """
        if result.group in self._refused:
            return Verdict(False, REFUSED)
        verdict = Verdict(True, "signal")
        if not carries_signal(rewards):
            capped = self._in_a_row >= self._max
            verdict = Verdict(True, "cap") if capped else Verdict(False, REFUSED)
        self._counts[verdict.reason] += 1
        self._in_a_row = 0 if verdict.keep else self._in_a_row + 1
        if not verdict.keep:
            self._refused[result.group] = replace(result, trained=False)
        return verdict

    def take_refused(self) -> list[GroupResult]:
        """Groups refused since the last call, by number: for ``observe``, with the next batch.

        They have to be observed. A posterior that sees mixed groups alone takes a task that is always solved
        for one that was never tried, and has it played again and again.
        """
        refused, self._refused = self._refused, {}
        return [refused[number] for number in sorted(refused)]

    def metrics(self) -> dict[str, float]:
        """Shares of the groups so far that were refused, and kept by the cap."""
        total = max(1, sum(self._counts.values()))
        return {
            "refill_refused": self._counts[REFUSED] / total,
            "refill_kept_by_cap": self._counts["cap"] / total,
        }

    def state_dict(self) -> dict[str, Any]:
        """Counts, and the groups refused since the last batch."""
        return {
            "in_a_row": self._in_a_row,
            "counts": dict(self._counts),
            "refused": [asdict(result) for result in self._refused.values()],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over a saved state."""
        self._in_a_row = int(state["in_a_row"])
        self._counts = {name: int(state["counts"][name]) for name in self._counts}
        results = (GroupResult(**fields) for fields in state["refused"])
        self._refused = {result.group: result for result in results}
