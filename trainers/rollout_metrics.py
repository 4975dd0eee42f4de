"""What the rollout side of an update measures, from counts and seconds that are given to it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from agentic_gym.types import Trajectory

_PERCENTILES = (50, 90, 99)
_COUNTED = ("retries", "dropped", "migrations")
PARKED_ALARM = 0.05
"""Share of episodes' time that may be spent parked (RollPacker's long queue: under 5 % of wall time)."""


@dataclass(slots=True)
class RolloutMetrics:
    """Collects from one batch to the next.

    Args:
        clock: seconds.
        lent: replicas whose machine helps the trainer.
    """

    clock: Callable[[], float] = time.perf_counter
    lent: set[int] = field(default_factory=set)
    _seconds: list[float] = field(default_factory=list)
    _queued: list[float] = field(default_factory=list)
    _parked: list[float] = field(default_factory=list)
    _latencies: list[float] = field(default_factory=list)
    _gaps: list[float] = field(default_factory=list)
    _pushes: list[float] = field(default_factory=list)
    _spreads: list[float] = field(default_factory=list)
    _rebuilds: int = 0
    _counts: dict[str, int] = field(default_factory=dict)
    _broken: int = 0
    _samples: int = 0
    _busy: int = 0
    _active: int = 0
    _kv_used: float = 0.0
    _trainer_idle: float = 0.0
    _began: float = -1.0

    def __post_init__(self) -> None:
        self._began = self.clock()

    def ended(self, seconds: float, queued: float, parked: float) -> None:
        """An episode is over, after ``seconds`` of its own."""
        self._seconds.append(seconds)
        self._queued.append(queued)
        self._parked.append(parked)

    def broke(self) -> None:
        """An episode ended as ``infra_error``."""
        self._broken += 1

    def count(self, what: str) -> None:
        """Something happened once more: "retries", "dropped" or "migrations"."""
        self._counts[what] = self._counts.get(what, 0) + 1

    def published(self, seconds: float, gap: float) -> None:
        """A replica has loaded weights; ``gap`` is the largest difference of a log-probability."""
        self._latencies.append(seconds)
        self._gaps.append(gap)

    def pushed(self, seconds: float) -> None:
        """The first relay has new weights; the trainer waited for so long."""
        self._pushes.append(seconds)

    def spread(self, seconds: float) -> None:
        """All relays have the newest weights, so long after they were pushed."""
        self._spreads.append(seconds)

    def rebuilt(self) -> None:
        """The chain of relays goes round one that was lost."""
        self._rebuilds += 1

    def assigned(self, replica: int, role: str) -> None:
        """A replica's machine has another role."""
        (self.lent.add if role == "train" else self.lent.discard)(replica)

    def sample(self, *, busy: bool, active: int, kv_used: float = 0.0) -> None:
        """A look at the engine, taken at regular intervals; ``kv_used`` of the fullest replica's cache."""
        self._samples += 1
        self._kv_used += kv_used
        self._busy += busy
        self._active += active

    def trainer_waited(self, seconds: float) -> None:
        """The trainer had nothing to train on for so long."""
        self._trainer_idle += seconds

    def summary(self, batch: Sequence[Trajectory]) -> dict[str, float]:
        """The figures so far, by name, and those of a batch."""
        wall = max(self.clock() - self._began, 1e-9)
        found: dict[str, float] = {
            "infra_errors": float(self._broken),
            "trainer_idle_share": min(1.0, self._trainer_idle / wall),
            "episodes_per_s": len(self._seconds) / wall,
            **{name: float(self._counts.get(name, 0)) for name in _COUNTED},
            **_percentiles("episode_s", self._seconds),
            **_percentiles("queue_wait_s", self._queued),
            **_versions(batch),
        }
        spent = sum(self._seconds) + sum(self._parked)
        found["parked_share"] = sum(self._parked) / spent if spent else 0.0
        if self._samples:
            found["engine_idle_share"] = 1.0 - self._busy / self._samples
            found["active_episodes"] = self._active / self._samples
            found["kv_used_share"] = self._kv_used / self._samples
        if self._latencies:
            found["publish_s"] = max(self._latencies)
            found["publish_gap"] = max(self._gaps)
        if self._pushes:
            found["relay_push_s"] = max(self._pushes)
            found["relay_rebuilds"] = float(self._rebuilds)
        if self._spreads:
            found["relay_spread_s"] = max(self._spreads)
        return found


def _versions(batch: Sequence[Trajectory]) -> dict[str, float]:
    streams = [t.tokens for t in batch if t.tokens is not None and t.tokens.sampled.any()]
    if not streams:
        return {}
    counts = [len(np.unique(stream.versions[stream.sampled])) for stream in streams]
    return {"versions_per_trajectory": float(np.mean(counts))}


def _percentiles(name: str, values: Sequence[float]) -> dict[str, float]:
    if not values:
        return {}
    found = np.percentile(values, _PERCENTILES)
    return {f"{name}_p{p}": float(v) for p, v in zip(_PERCENTILES, found, strict=True)}
