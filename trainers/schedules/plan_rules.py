"""When a plan uses which schedule: rules that look at a run between two updates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from agentic_gym.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Boundary:
    """What rules look at, between two updates.

    Attributes:
        version: of the trainer's weights.
        hour: of the day, local time, from 0 to 24; None: no tick has told it yet.
        pressure: complete groups that wait for the trainer, in batches; None: no batch was seen yet.
        tail_rate: share of trajectories that take more than three times the median.
    """

    version: int
    hour: float | None = None
    pressure: float | None = None
    tail_rate: float = 0.0


class Rule(Protocol):
    """When a schedule should be used."""

    @property
    def schedule(self) -> str:
        """Name of the schedule that is used while the rule holds."""
        ...

    def holds(self, at: Boundary) -> bool | None:
        """Whether it holds now; None: it cannot tell yet, and what is used stays."""
        ...


@dataclass(frozen=True, slots=True)
class HourWindow:
    """Holds at some hours of the day.

    Attributes:
        schedule: that is used then.
        start: hour, from 0 to 24.
        end: hour, not included; before ``start``: on the next day.

    >>> night = HourWindow("bounded_async", start=22, end=6)
    >>> [night.holds(Boundary(0, hour)) for hour in (5.9, 6, 12, 22)]
    [True, False, False, True]

    Raises:
        ConfigError: an hour is none, or the window is empty.
    """

    schedule: str
    start: float
    end: float

    def __post_init__(self) -> None:
        if not (0 <= self.start <= 24 and 0 <= self.end <= 24):
            raise ConfigError(f"start={self.start} and end={self.end} must be hours, from 0 to 24")
        if self.start % 24 == self.end % 24:
            raise ConfigError(
                f"start={self.start} and end={self.end} are the same hour: for the whole day, make "
                f"{self.schedule!r} the default"
            )

    def holds(self, at: Boundary) -> bool | None:
        """See :class:`Rule`."""
        if at.hour is None:
            return None
        hour, start, end = at.hour % 24, self.start % 24, self.end % 24
        return start <= hour < end if start < end else hour >= start or hour < end


@dataclass(frozen=True, slots=True)
class QueuePressure:
    """Holds while generation is ahead: running further ahead only makes tokens staler.

    Attributes:
        schedule: that is used then.
        batches: that wait for the trainer, above which it holds.

    Raises:
        ConfigError: the number is negative.
    """

    schedule: str
    batches: float

    def __post_init__(self) -> None:
        if self.batches < 0:
            raise ConfigError(f"batches={self.batches} must not be negative")

    def holds(self, at: Boundary) -> bool | None:
        """See :class:`Rule`."""
        return None if at.pressure is None else at.pressure > self.batches


@dataclass(frozen=True, slots=True)
class LongTail:
    """Holds while many trajectories take more than three times the median.

    Attributes:
        schedule: that is used then.
        rate: share of them, from 0 to 1, above which it holds.

    Raises:
        ConfigError: the rate is no share.
    """

    schedule: str
    rate: float

    def __post_init__(self) -> None:
        if not 0 <= self.rate <= 1:
            raise ConfigError(f"rate={self.rate} is a share: from 0 to 1")

    def holds(self, at: Boundary) -> bool | None:
        """See :class:`Rule`."""
        return at.tail_rate > self.rate


@dataclass(frozen=True, slots=True)
class WeightRelease:
    """Holds from a release of weights on, for some updates.

    Attributes:
        schedule: that is used then.
        every: updates between releases; 0: use ``at``.
        at: versions that are released.
        updates: for which it holds.

    >>> release = WeightRelease("sync", every=100, updates=2)
    >>> [version for version in range(300) if release.holds(Boundary(version))]
    [100, 101, 200, 201]

    Raises:
        ConfigError: not exactly one of ``every`` and ``at`` is given, or a number is out of range.
    """

    schedule: str
    every: int = 0
    at: tuple[int, ...] = ()
    updates: int = 1

    def __post_init__(self) -> None:
        if self.every < 0 or bool(self.every) == bool(self.at):
            raise ConfigError(
                f"every={self.every} and at={self.at}: give one of them, every (a positive number of "
                "updates) or at (versions)"
            )
        if self.updates < 1 or 0 < self.every <= self.updates:
            raise ConfigError(
                f"updates={self.updates} must be at least 1, and less than every: otherwise make "
                f"{self.schedule!r} the default"
            )

    def holds(self, at: Boundary) -> bool | None:
        """See :class:`Rule`."""
        if self.every:
            return at.version >= self.every and at.version % self.every < self.updates
        return any(version <= at.version < version + self.updates for version in self.at)
