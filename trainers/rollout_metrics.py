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
    """Collects over one update; :meth:`take` tells, and begins anew.

    Args:
        clock: seconds.
    """

    clock: Callable[[], float] = time.perf_counter
    _seconds: list[float] = field(default_factory=list)
    _queued: list[float] = field(default_factory=list)
    _parked: list[float] = field(default_factory=list)
    _latencies: list[float] = field(default_factory=list)
    _gaps: list[float] = field(default_factory=list)
    _counts: dict[str, int] = field(default_factory=dict)
    _broken: int = 0
    _samples: int = 0
    _busy: int = 0
    _active: int = 0
    _lent: set[int] = field(default_factory=set)
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

    def assigned(self, replica: int, role: str) -> None:
        """A replica's machine has another role."""
        (self._lent.add if role == "train" else self._lent.discard)(replica)

    @property
    def num_lent(self) -> int:
        """Replicas whose machine helps the trainer."""
        return len(self._lent)

    def sample(self, *, busy: bool, active: int) -> None:
        """A look at the engine, taken at regular intervals."""
        self._samples += 1
        self._busy += busy
        self._active += active

    def trainer_waited(self, seconds: float) -> None:
        """The trainer had nothing to train on for so long."""
        self._trainer_idle += seconds

    def take(self, batch: Sequence[Trajectory], version: int) -> dict[str, float]:
        """The figures of an update, by name; then everything begins anew.

        Args:
            batch: that was trained.
            version: of the weights that it was trained on.
        """
        now = self.clock()
        wall = max(now - self._began, 1e-9)
        lent = self._lent
        found: dict[str, float] = {
            "infra_errors": float(self._broken),
            "trainer_idle_share": min(1.0, self._trainer_idle / wall),
            "episodes_per_s": len(self._seconds) / wall,
            **{name: float(self._counts.get(name, 0)) for name in _COUNTED},
            **_percentiles("episode_s", self._seconds),
            **_percentiles("queue_wait_s", self._queued),
            **staleness(batch, version),
        }
        spent = sum(self._seconds) + sum(self._parked)
        found["parked_share"] = sum(self._parked) / spent if spent else 0.0
        if self._samples:
            found["engine_idle_share"] = 1.0 - self._busy / self._samples
            found["active_episodes"] = self._active / self._samples
        if self._latencies:
            found["publish_s"] = max(self._latencies)
            found["publish_gap"] = max(self._gaps)
        self.__init__(self.clock)  # type: ignore[misc]  # as new
        self._lent = lent
        return found


def staleness(batch: Sequence[Trajectory], version: int) -> dict[str, float]:
    """How far the weights that sampled a batch are behind those that it trains.

    Returns:
        mean over tokens and oldest of a trajectory, the share of tokens at each distance up to 8 (the last
        one counts those beyond), and the mean number of versions in a trajectory.
    """
    behind: list[np.ndarray] = []
    oldest: list[int] = []
    mixed: list[int] = []
    for trajectory in batch:
        stream = trajectory.tokens
        if stream is None or not stream.sampled.any():
            continue
        versions = stream.versions[stream.sampled]
        behind.append(version - versions)
        oldest.append(version - int(versions.min()))
        mixed.append(len(np.unique(versions)))
    if not behind:
        return {}
    tokens = np.clip(np.concatenate(behind), 0, 8)
    shares = np.bincount(tokens, minlength=9) / len(tokens)
    return {
        "staleness_mean": float(np.concatenate(behind).mean()),
        "staleness_max": float(max(oldest)),
        "versions_per_trajectory": float(np.mean(mixed)),
        **{f"staleness_share/{k}": float(share) for k, share in enumerate(shares) if share > 0},
    }


def _percentiles(name: str, values: Sequence[float]) -> dict[str, float]:
    if not values:
        return {}
    found = np.percentile(values, _PERCENTILES)
    return {f"{name}_p{p}": float(v) for p, v in zip(_PERCENTILES, found, strict=True)}
