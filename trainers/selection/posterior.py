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
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from agentic_gym.errors import ConfigError
from agentic_gym.metrics import Interval
from agentic_gym.trainers.selection.base import GroupResult, TaskFacts

Floats = npt.NDArray[np.float64]

_SURE = 0.05
"""A prior's mean keeps this distance from 0 and 1: a guess is not knowledge."""

_FORGOTTEN = 1e-3
"""Evidence worth less than so many tries is none: it would only fill the saved state."""

_MAX_TERMS = 10_000
_TINY = 1e-300


class Posteriors:
    """Beta posteriors of a run's tasks.

    Args:
        tasks: of the run.
        prior_strength: tries that a prior is worth. One, as most tasks of a set are either easy or hard: with
            a mean of ½ it is Jeffreys' Beta(½, ½), and the share in the band that it claims comes true.
        discount: what an observation still weighs an update later.
        pool_strength: tasks that the prior of a class's mean is worth; infinite: classes tell nothing.

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
            self._parameters = (
                prior + self._solved,
                self._prior_strength - prior + self._failed,
            )
        return self._parameters

    def prior_mean(self) -> Floats:
        """Of every task: from its guess, or from the other tasks of its class. [N]"""
        tries = self._solved + self._failed
        weight = tries / (tries + self._prior_strength)
        rate = np.divide(self._solved, tries, out=np.zeros_like(tries), where=tries > 0)
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
        tries = self._solved + self._failed
        return float((tries / (tries + self._prior_strength)).sum())

    def state_dict(self) -> dict[str, Any]:
        """Evidence of the tasks that there is some of, and the update that it is discounted to."""
        tried = np.flatnonzero(self._solved + self._failed)
        evidence = {
            self._ids[place]: [float(self._solved[place]), float(self._failed[place])]
            for place in tried
        }
        return {"update": self._update, "evidence": evidence}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over a saved state.

        Raises:
            ConfigError: it knows a task that is not of this run.
        """
        evidence = state["evidence"]
        places = places_of(self._places, evidence)
        self._solved, self._failed = np.zeros((2, len(self._ids)))
        for place, (solved, failed) in zip(places, evidence.values(), strict=True):
            self._solved[place], self._failed[place] = solved, failed
        self._update, self._parameters = state["update"], None


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


def beta_mass(alpha: float, beta: float, low: float, high: float) -> float:
    """Probability that a Beta(α, β) number lies between two numbers.

    >>> round(beta_mass(1, 1, 0.2, 0.8), 9)
    0.6

    Args:
        alpha: positive.
        beta: positive.
        low: anything below 0 is 0.
        high: anything above 1 is 1.
    """
    return max(0.0, beta_cdf(alpha, beta, high) - beta_cdf(alpha, beta, low))


def beta_interval(alpha: float, beta: float, *, confidence: float = 0.95) -> Interval:
    """Mean and central interval of Beta(α, β), with as much probability below it as above.

    Raises:
        ConfigError: the confidence is not between 0 and 1.
    """
    if not 0 < confidence < 1:
        raise ConfigError(f"confidence={confidence} must be between 0 and 1")
    tail = (1 - confidence) / 2
    ends = (_quantile(alpha, beta, share) for share in (tail, 1 - tail))
    return Interval(alpha / (alpha + beta), *ends)


def beta_cdf(alpha: float, beta: float, x: float) -> float:
    """The regularised incomplete beta function I_x(α, β): probability that Beta(α, β) is at most x.

    By the continued fraction of DLMF 8.17.22, evaluated as Lentz does; it converges fast below
    (α + 1)/(α + β + 2), and above it I_x(α, β) = 1 − I_{1−x}(β, α).

    Raises:
        ConfigError: α or β is not positive.
    """
    if not (0 < alpha < math.inf and 0 < beta < math.inf):
        raise ConfigError(f"Beta({alpha}, {beta}) is no distribution: both must be positive")
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (alpha + 1) / (alpha + beta + 2):
        return 1.0 - beta_cdf(beta, alpha, 1.0 - x)
    log_front = alpha * math.log(x) + beta * math.log1p(-x) - math.log(alpha)
    log_front += math.lgamma(alpha + beta) - math.lgamma(alpha) - math.lgamma(beta)
    return min(1.0, math.exp(log_front) / _fraction(alpha, beta, x))


def _fraction(a: float, b: float, x: float) -> float:
    """1 + d1/(1 + d2/(1 + …)) of DLMF 8.17.22, by Lentz' method."""
    value, c, d = 1.0, 1.0, 0.0
    for term in range(1, _MAX_TERMS):
        m = term // 2
        if term % 2:
            step = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            step = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1.0 / _away(1.0 + step * d)
        c = _away(1.0 + step / c)
        value *= c * d
        if abs(c * d - 1.0) < 1e-15:
            break
    return value


def _away(value: float) -> float:
    """Not quite 0, which Lentz' method divides by."""
    return value if abs(value) > _TINY else _TINY


def _quantile(alpha: float, beta: float, share: float) -> float:
    low, high = 0.0, 1.0
    while high - low > 1e-12:
        middle = (low + high) / 2
        if beta_cdf(alpha, beta, middle) < share:
            low = middle
        else:
            high = middle
    return (low + high) / 2
