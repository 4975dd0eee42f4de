"""How likely a task is to be solved: a Beta posterior for each, which forgets as the policy changes.

The policy changes with updates, not with observations. So what was observed is discounted by the updates
that have passed since, for every task alike, observed again or not: ``evidence · discount ** updates``.
What is forgotten gives way to the prior, as in BOTS (arXiv 2510.26374, §3; its forgetting factor is 1 −
discount). Rejected: discounting a task only when it is observed again. A task that is left alone because it
looked hopeless would then look hopeless for ever, with a certainty from before the policy learned anything.

The prior of a task with a guess of its difficulty d has the mean 1 − d. Without one it has the mean of the
tasks of its error class so far (BOTS' implicit evidence, by class instead of by an interpolation), which
itself begins at ½. There each *task* weighs at most one, however often it was tried: tasks are tried again
because of their rate, so that a mean over tries would be drawn to the band that is being chosen.

Tries from before the run (a difficulty profile) are part of the prior: they are added to it, and are not
forgotten. What is forgotten then gives way to what was measured of this very task. Rejected: telling them
to :meth:`Posteriors.observe` as an update 0, discounted like all others. In a simulation (300 tasks, 4
tries each, 40 updates of 16 groups of 4, a policy that learns slowly or not) that brought 0.56 of the draws
into the band, the prior 0.61, and no profile 0.48. Only where the policy learned fast (3 logits within the
run) was the other way a little better, 0.43 to 0.42.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from agentic_gym.beta import beta_interval, beta_mass
from agentic_gym.errors import ConfigError
from agentic_gym.metrics import Interval
from agentic_gym.trainers.selection.base import GroupResult, TaskFacts

Floats = npt.NDArray[np.float64]

_SURE = 0.05
"""A prior's mean keeps this distance from 0 and 1: a guess is not knowledge."""

_FORGOTTEN = 1e-3
"""Evidence worth less than so many tries is none: it would only fill the saved state."""


class Posteriors:
    """Beta posteriors of a run's tasks.

    Args:
        tasks: of the run.
        prior_strength: tries that a prior is worth. One, as most tasks of a set are either easy or hard: with
            a mean of ½ it is Jeffreys' Beta(½, ½), and the share in the band that it claims comes true.
        discount: what an observation still weighs an update later.
        pool_strength: tasks that the prior of a class's mean is worth; infinite: classes tell nothing.
        measured: solved and failed tries from before the run by task id; those of other tasks are passed
            over.

    Raises:
        ConfigError: a number is out of range.
    """

    def __init__(
        self,
        tasks: Sequence[TaskFacts],
        *,
        prior_strength: float = 1.0,
        discount: float = 0.95,
        pool_strength: float = 4.0,
        measured: Mapping[str, tuple[float, float]] | None = None,
    ) -> None:
        if not 0 < prior_strength < math.inf or not pool_strength > 0:
            raise ConfigError(
                f"prior_strength={prior_strength} and pool_strength={pool_strength} must be positive"
            )
        if not 0 < discount <= 1:
            raise ConfigError(
                f"discount={discount} must be over 0 and at most 1 (1 forgets nothing)"
            )
        self._places = {task.task_id: place for place, task in enumerate(tasks)}
        self._ids = tuple(self._places)
        names = sorted({task.error_class for task in tasks})
        self._classes = np.array([names.index(task.error_class) for task in tasks])
        self._guesses = np.array(
            [math.nan if task.difficulty is None else 1 - task.difficulty for task in tasks]
        )
        self._prior_strength, self._discount = prior_strength, discount
        self._pool_strength = pool_strength
        counts = [(measured or {}).get(task_id, (0.0, 0.0)) for task_id in self._ids]
        self._before: Floats = np.array(counts, dtype=np.float64).reshape(-1, 2).T  # [2, N]
        self._mark = _mark(self._before) if measured is not None else None
        self._solved: Floats = np.zeros(len(tasks))
        self._failed: Floats = np.zeros(len(tasks))
        self._update: int | None = None
        self._parameters: tuple[Floats, Floats] | None = None

    def observe(self, update: int, results: Sequence[GroupResult]) -> None:
        """Takes in the results of an update; their order does not matter.

        Args:
            update: its number, above that of the last call.
            results: of groups; those of tasks that are not of this run are passed over.
        """
        kept = 1.0 if self._update is None else self._discount ** (update - self._update)
        self._update, self._parameters = update, None
        # Whole numbers are added up first: their sum is the same in every order.
        solved, failed = np.zeros((2, len(self._ids)), dtype=np.int64)
        for result in results:
            place = self._places.get(result.task_id)
            if place is not None:
                solved[place] += result.solved
                failed[place] += result.total - result.solved
        self._solved, self._failed = self._solved * kept + solved, self._failed * kept + failed
        forgotten = self._solved + self._failed < _FORGOTTEN
        self._solved[forgotten] = self._failed[forgotten] = 0.0

    def parameters(self) -> tuple[Floats, Floats]:
        """α and β of every task, both positive. [N] each"""
        if self._parameters is None:
            prior = self._prior_strength * self.prior_mean()
            solved, failed = self._evidence
            self._parameters = (prior + solved, self._prior_strength - prior + failed)
        return self._parameters

    def prior_mean(self) -> Floats:
        """Of every task: from its guess, or from the other tasks of its class. [N]"""
        solved, failed = self._evidence
        tries = solved + failed
        weight = tries / (tries + self._prior_strength)
        rate = np.divide(solved, tries, out=np.zeros_like(tries), where=tries > 0)
        known = weight * rate
        mean: Floats = np.full(len(tries), 0.5)
        if math.isfinite(self._pool_strength):
            # Without the task itself: its own tries are counted in its posterior.
            everywhere = np.zeros_like(self._classes)
            for groups in (everywhere, self._classes):
                others = np.bincount(groups, known)[groups] - known
                weights = np.bincount(groups, weight)[groups] - weight
                mean = (self._pool_strength * mean + others) / (self._pool_strength + weights)
        mean = np.where(np.isnan(self._guesses), mean, self._guesses)
        return np.clip(mean, _SURE, 1 - _SURE)

    def mean(self) -> Floats:
        """Expected share of solved tries of every task. [N]"""
        alpha, beta = self.parameters()
        mean: Floats = alpha / (alpha + beta)
        return mean

    def draw(self, rng: np.random.Generator) -> Floats:
        """One draw from every posterior. [N]"""
        return rng.beta(*self.parameters())

    def mass(self, place: int, low: float, high: float) -> float:
        """Probability that the rate of the task at a place lies between two numbers."""
        alpha, beta = self.parameters()
        return beta_mass(float(alpha[place]), float(beta[place]), low, high)

    def interval(self, place: int, *, confidence: float = 0.95) -> Interval:
        """Mean and central credible interval of the task at a place.

        Raises:
            ConfigError: the confidence is not between 0 and 1.
        """
        alpha, beta = (float(values[place]) for values in self.parameters())
        return beta_interval(alpha, beta, confidence=confidence)

    @property
    def num_known(self) -> float:
        """Tasks that there is evidence of, each weighed by how much: from 0 to their number."""
        tries = np.add(*self._evidence)
        return float((tries / (tries + self._prior_strength)).sum())

    @property
    def num_measured(self) -> int:
        """Tasks that were tried before the run."""
        return int(np.count_nonzero(self._before.sum(axis=0)))

    @property
    def _evidence(self) -> tuple[Floats, Floats]:
        """Solved and failed tries of every task, from before and within the run. [N] each"""
        return self._before[0] + self._solved, self._before[1] + self._failed

    def state_dict(self) -> dict[str, Any]:
        """Evidence of the tasks that there is some of within the run, and the update that it is discounted
        to; what was measured before is told by a checksum, since a run that goes on reads it anew."""
        tried = np.flatnonzero(self._solved + self._failed)
        evidence = {
            self._ids[place]: [float(self._solved[place]), float(self._failed[place])]
            for place in tried
        }
        return {"update": self._update, "evidence": evidence, "measured": self._mark}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over a saved state.

        Raises:
            ConfigError: it knows a task that is not of this run, or another profile began the run.
        """
        if state.get("measured") != self._mark:
            raise ConfigError(
                "the difficulty profile, or its weight, is not the one that the run began with: resume with "
                "that profile.json, or begin a new run"
            )
        evidence = state["evidence"]
        places = places_of(self._places, evidence)
        self._solved, self._failed = np.zeros((2, len(self._ids)))
        for place, (solved, failed) in zip(places, evidence.values(), strict=True):
            self._solved[place], self._failed[place] = solved, failed
        self._update, self._parameters = state["update"], None


def _mark(before: Floats) -> int:
    return zlib.crc32(np.ascontiguousarray(before, dtype="<f8").tobytes())


def places_of(places: Mapping[str, int], task_ids: Sequence[str] | Mapping[str, Any]) -> list[int]:
    """Places of saved tasks.

    Raises:
        ConfigError: one is not of this run.
    """
    for task_id in task_ids:
        if task_id not in places:
            raise ConfigError(
                f"the saved selection knows the task {task_id!r}, which this run lacks: resume with the "
                "tasks that the run began with"
            )
    return [places[task_id] for task_id in task_ids]
