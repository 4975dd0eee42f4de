"""From easy to hard: a band that moves as the policy gets better.

Rule: progress aims at (m − begin_at) / (end_at − begin_at), kept between 0 and 1, where m is the mean
posterior over *all* tasks. The band is start + progress · (end − start). Progress never falls, and rises by
``max_step`` an update at most, so that a lucky update does not move the band for good.

m is taken over all tasks, each once. The success rate of the groups that were played would say nothing: the
band chooses them for their rate, so it stays near the band's middle whatever the policy learns. Before a
quarter of the tasks, or eight of them, are known, m is mostly the prior, and the band stays where it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentic_gym.difficulty import check_band
from agentic_gym.errors import ConfigError
from agentic_gym.trainers.selection.band import BandTasks
from agentic_gym.trainers.selection.base import GroupResult, TaskFacts

_KNOWN_TASKS = 8.0
_KNOWN_SHARE = 0.25


class CurriculumTasks(BandTasks):
    """See the module.

    Args:
        tasks: of the run, in any order.
        start_low: lower end of the band at the start.
        start_high: upper end at the start.
        low: lower end when progress is 1, not above ``start_low``.
        high: upper end when progress is 1, not above ``start_high``.
        begin_at: mean posterior at which the band begins to move.
        end_at: mean posterior at which it has arrived.
        max_step: progress of one update at most.
        **options: of :class:`~.band.BandTasks`.

    Raises:
        ConfigError: a number is out of range, or the band would move towards easy tasks.
    """

    kind = "curriculum"

    def __init__(
        self,
        tasks: Sequence[TaskFacts],
        *,
        start_low: float = 0.4,
        start_high: float = 0.9,
        low: float = 0.1,
        high: float = 0.6,
        begin_at: float = 0.3,
        end_at: float = 0.7,
        max_step: float = 0.05,
        **options: Any,
    ) -> None:
        super().__init__(tasks, low=low, high=high, **options)
        check_band("start_low", start_low, "start_high", start_high)
        if low > start_low or high > start_high:
            raise ConfigError(
                f"the band goes from {start_low}-{start_high} to {low}-{high}: a curriculum goes from "
                "easy to hard, to lower success rates. Give low ≤ start_low and high ≤ start_high"
            )
        if not 0 <= begin_at < end_at <= 1:
            raise ConfigError(
                f"begin_at={begin_at}, end_at={end_at}: give 0 ≤ begin_at < end_at ≤ 1"
            )
        if not 0 < max_step <= 1:
            raise ConfigError(f"max_step={max_step} must be over 0 and at most 1")
        self._start, self._end = (start_low, start_high), (low, high)
        self._begin_at, self._end_at, self._max_step = begin_at, end_at, max_step
        self._progress = 0.0

    @property
    def progress(self) -> float:
        """From 0 to 1."""
        return self._progress

    @property
    def band(self) -> tuple[float, float]:
        """Its ends now."""
        low, high = (
            start + self._progress * (end - start)
            for start, end in zip(self._start, self._end, strict=True)
        )
        return low, high

    def learn(self, update: int, results: Sequence[GroupResult]) -> None:
        """Into the posteriors; then the band moves."""
        super().learn(update, results)
        if self.posteriors.num_known < min(_KNOWN_TASKS, _KNOWN_SHARE * len(self._tasks)):
            return
        mean = float(self.posteriors.mean().mean())
        aim = min(1.0, (mean - self._begin_at) / (self._end_at - self._begin_at))
        self._progress = max(self._progress, min(aim, self._progress + self._max_step))

    def metrics(self) -> dict[str, float]:
        """Those of :class:`~.band.BandTasks`, and the progress."""
        return super().metrics() | {"selection_progress": self._progress}

    def state_dict(self) -> dict[str, Any]:
        """With the progress."""
        return super().state_dict() | {"progress": self._progress}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See :class:`~.base.TaskSelector`."""
        super().load_state_dict(state)
        self._progress = float(state["progress"])
