"""Tasks that are neither too easy nor too hard: Thompson sampling towards a band of success rates.

What a group teaches grows with p(1 − p), the variance of its outcomes, and vanishes at both ends. For each
draw every task gets a rate drawn from its posterior (Thompson 1933; for this use: BOTS, arXiv 2510.26374,
and MoPPS, arXiv 2507.04632), and weighs the more the nearer that rate is to the middle of the band
(:func:`band_weights`). A task about which little is known often draws a rate inside, so it gets tried; one
that is known to be outside hardly ever does.

The weights choose tasks, never samples. Filtering the groups that were just played by their own success
("0.2 to 0.8 solved: keep") selects luck: of the tasks with p = 0.1 it keeps the groups that did better than
that, and the policy trains on a mean reward that is not the task's.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from agentic_gym.difficulty import (
    DifficultyProfile,
    check_band,
    evidence_of,
    origin,
    read_profile,
)
from agentic_gym.errors import ConfigError
from agentic_gym.trainers.selection.base import GroupResult, TaskFacts
from agentic_gym.trainers.selection.posterior import Floats, Posteriors
from agentic_gym.trainers.selection.weighted import WeightedTasks

_LEAST = 1e-9
"""Weight of a task whose drawn rate is 0 or 1: there is always one that can be picked."""


class BandTasks(WeightedTasks):
    """See the module.

    Args:
        tasks: of the run, in any order.
        low: lower end of the band.
        high: upper end.
        softness: distance from the band over which a weight falls to 1/e.
        sharpness: power of the weights. 1 takes tasks in proportion to what they may teach; the higher, the
            nearer it comes to taking the best, and the fewer tasks share the draws.
        prior_strength: tries that a prior is worth; see :class:`~.posterior.Posteriors`.
        discount: what an observation still weighs an update later.
        pool_strength: tasks that the prior of a class's mean is worth.
        profile: how often a policy solved the tasks before the run, or the path of such a file
            (``agentic-gym tasks profile``). Tasks that it lacks begin at the prior.
        profile_weight: what one of its tries weighs, as a part of the prior; 1 is a try of this run. Less
            where another policy was measured.
        **options: of :class:`~.weighted.WeightedTasks`.

    Raises:
        ConfigError: a number is out of range, or the profile cannot be read or knows none of the tasks.
    """

    kind = "band"

    def __init__(
        self,
        tasks: Sequence[TaskFacts],
        *,
        low: float = 0.2,
        high: float = 0.8,
        softness: float = 0.05,
        sharpness: float = 4.0,
        prior_strength: float = 1.0,
        discount: float = 0.95,
        pool_strength: float = 4.0,
        profile: DifficultyProfile | str | os.PathLike[str] | None = None,
        profile_weight: float = 1.0,
        **options: Any,
    ) -> None:
        super().__init__(tasks, **options)
        check_band("low", low, "high", high)
        if not softness > 0 or not 0 < sharpness <= 100:
            raise ConfigError(
                f"softness={softness} must be positive, sharpness={sharpness} over 0 and at most 100"
            )
        self._band = (low, high)
        self._softness, self._sharpness = softness, sharpness
        self.posteriors = Posteriors(
            self._tasks,
            prior_strength=prior_strength,
            discount=discount,
            pool_strength=pool_strength,
            measured=_measured(profile, profile_weight, self._tasks),
        )
        self._has_profile = profile is not None

    @property
    def band(self) -> tuple[float, float]:
        """Its ends."""
        return self._band

    def weigh(self, rng: np.random.Generator) -> Floats:
        """By a rate drawn from each posterior. [N]"""
        weights = band_weights(self.posteriors.draw(rng), self.band, self._softness)
        return np.maximum(weights**self._sharpness, _LEAST)

    def learn(self, update: int, results: Sequence[GroupResult]) -> None:
        """Into the posteriors."""
        self.posteriors.observe(update, results)

    def inside(self, place: int) -> float:
        """Probability that a task lies in the band."""
        return self.posteriors.mass(place, *self.band)

    def metrics(self) -> dict[str, float]:
        """Those of :class:`~.weighted.WeightedTasks`, the band, the mean of the posteriors, and, where there
        is a profile, the share of the tasks that it knows."""
        low, high = self.band
        share = self.posteriors.num_measured / len(self._tasks)
        profiled = {"selection_profiled": share} if self._has_profile else {}
        return (
            super().metrics()
            | profiled
            | {
                "selection_posterior_mean": float(self.posteriors.mean().mean()),
                "selection_band_low": low,
                "selection_band_high": high,
            }
        )

    def state_dict(self) -> dict[str, Any]:
        """With the posteriors."""
        return super().state_dict() | {"posteriors": self.posteriors.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See :class:`~.base.TaskSelector`."""
        super().load_state_dict(state)
        self.posteriors.load_state_dict(state["posteriors"])


def band_weights(rates: Floats, band: tuple[float, float], softness: float) -> Floats:
    """What tasks of these rates weigh, from 0 to 1 in the middle of the band. [N] of [N]

    ``(1 − 4(p − m)²) · exp(−d / softness)``, m being the middle of the band and d the distance from it. For a
    middle of ½ the first factor is 4p(1 − p). Elsewhere it follows the band: a curriculum that wants easy
    tasks first must not be drawn to ½ by the signal.
    """
    low, high = band
    distance = np.maximum(0.0, np.maximum(low - rates, rates - high))
    near: Floats = np.maximum(0.0, 1 - 4 * (rates - (low + high) / 2) ** 2)
    return near * np.exp(-distance / softness)


def _measured(
    profile: DifficultyProfile | str | os.PathLike[str] | None,
    weight: float,
    tasks: Sequence[TaskFacts],
) -> dict[str, tuple[float, float]] | None:
    """Weighted tries of a profile by task; None without one."""
    if not 0 < weight < math.inf:
        raise ConfigError(f"profile_weight={weight} is what a try weighs: give a positive number")
    if profile is None:
        if weight != 1:
            raise ConfigError(f"profile_weight={weight} is not read without a profile: give both")
        return None
    found = profile if isinstance(profile, DifficultyProfile) else read_profile(profile)
    evidence = evidence_of(found)
    if not any(task.task_id in evidence for task in tasks):
        raise ConfigError(
            f"the profile ({origin(found)}) knows none of the {len(tasks)} tasks "
            f"of this run, {tasks[0].task_id!r} for instance: profile the tasks that train"
        )
    return {name: (weight * solved, weight * failed) for name, (solved, failed) in evidence.items()}
