"""How long an episode will take, learned while the run goes on: to launch the long ones first.

A ridge regression of the logarithm of the seconds on a few features: how long this task took earlier, the
length of its prompt, its error class. Logarithms because durations are about lognormal: a squared error in
seconds would fit the few longest alone. The regression forgets: a policy that learns changes its lengths.

A recursive update of the inverse was rejected: with forgetting, its entries for an error class that is
not seen for a while grow without bound. Here the normal equations are kept, the ridge is added afresh each
time they are solved, and they are solved only when something was observed since.

The score is prequential (Dawid 1984): every prediction was made before its episode was observed.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from agentic_gym.errors import ConfigError

Floats = npt.NDArray[np.float64]

_SHORTEST = 1e-3
"""Seconds. Whatever takes less is taken to take this: its logarithm exists."""

_TASK_FORGETTING = 0.9
"""What an earlier episode of a task weighs when the next is observed."""

_PROMPT_SCALE = 8.0
"""Logarithm of about 3,000 characters: prompts around it make a feature around 0."""

_NUM_FIXED = 3  # constant, task, prompt


@dataclass(frozen=True, slots=True)
class PredictionScore:
    """How good the latest predictions were. None: not defined, for want of observations or of variance.

    Attributes:
        num: predictions looked at.
        r2: share of the variance of log seconds that was predicted; 0: no better than their mean.
        rank_correlation: Spearman's, ties given their mean rank: what matters for an order.
        long_recall: of the k longest over the cut, the share found among the k predicted longest.
    """

    num: int
    r2: float | None
    rank_correlation: float | None
    long_recall: float | None


class LengthPredictor:
    """Online regression of log seconds.

    :meth:`observe` takes a time that grows with the number of features alone; :meth:`predict` too.

    Args:
        ridge: penalty on every coefficient but the constant.
        memory: episodes after which an observation weighs 1/e.
        shrinkage: episodes of its own that a task needs for its mean to count half.
        max_classes: error classes told apart; those seen later share one coefficient.
        max_tasks: tasks remembered; the one not observed for longest is forgotten first.
        window: latest predictions that the score is measured on.
        cut: an episode is long when it takes more than so many times the median of the window.

    Raises:
        ConfigError: a number is out of range.
    """

    def __init__(
        self,
        *,
        ridge: float = 1.0,
        memory: int = 2048,
        shrinkage: float = 1.0,
        max_classes: int = 16,
        max_tasks: int = 65536,
        window: int = 512,
        cut: float = 3.0,
    ) -> None:
        for name, value, least in (
            ("memory", memory, 1),
            ("max_classes", max_classes, 0),
            ("max_tasks", max_tasks, 1),
            ("window", window, 2),
            ("cut", cut, 1),
        ):
            if not least <= value < math.inf:
                raise ConfigError(f"{name}={value} must be {least} or more")
        if not (0 < ridge < math.inf and 0 < shrinkage < math.inf):
            raise ConfigError(f"ridge={ridge} and shrinkage={shrinkage} must be positive")
        self._ridge, self._keep, self._shrinkage = ridge, math.exp(-1 / memory), shrinkage
        self._max_classes, self._max_tasks, self._cut = max_classes, max_tasks, cut
        size = _NUM_FIXED + max_classes + 1
        self._gram: Floats = np.zeros((size, size))  # decayed sum of x xᵀ
        self._moment: Floats = np.zeros(size)  # decayed sum of x y
        self._weights: Floats | None = None  # None: to be solved for
        self._classes: dict[str, int] = {}
        # Of each task: decayed number of episodes, decayed sum of log seconds over the mean of all.
        self._tasks: dict[str, tuple[float, float]] = {}
        self._total, self._sum = 0.0, 0.0  # of all episodes, decayed: number, log seconds
        self._range: tuple[float, float] | None = None  # log seconds observed so far
        self._scored: deque[tuple[float, float]] = deque(maxlen=window)  # predicted, actual

    def predict(self, task_id: str, prompt_chars: int, error_class: str = "") -> float:
        """Seconds that an episode will take: the median, since it is the logarithm that is fitted.

        Args:
            task_id: of its task.
            prompt_chars: length of its prompt; 0 if it is not known: taken to be average.
            error_class: of the task, "" if it has none.

        Returns:
            Seconds, between the shortest and the longest observed; 1.0 before anything was observed.
        """
        return math.exp(self._predict_log(self._features(task_id, prompt_chars, error_class)))

    def observe(
        self,
        task_id: str,
        prompt_chars: int,
        error_class: str,
        seconds: float,
        *,
        predicted: float | None = None,
    ) -> None:
        """Learns from a finished episode.

        Args:
            task_id: of its task.
            prompt_chars: length of its prompt; 0 if it is not known: taken to be average.
            error_class: of the task, "" if it has none.
            seconds: that it took.
            predicted: seconds that were predicted at its launch. None: what would be predicted now, before
                this observation. That flatters: by now other episodes of the group may have ended.

        Raises:
            ConfigError: a duration is negative or not finite.
        """
        actual = _log(seconds)
        features = self._features(task_id, prompt_chars, error_class, learn=True)
        guess = self._predict_log(features) if predicted is None else _log(predicted)
        self._scored.append((guess, actual))

        self._gram = self._keep * self._gram + np.outer(features, features)
        self._moment = self._keep * self._moment + actual * features
        self._weights = None

        weight, excess = self._tasks.pop(task_id, (0.0, 0.0))
        mean = self._sum / self._total if self._total else actual
        self._tasks[task_id] = (
            _TASK_FORGETTING * weight + 1,
            _TASK_FORGETTING * excess + actual - mean,
        )
        if len(self._tasks) > self._max_tasks:
            del self._tasks[next(iter(self._tasks))]
        self._total = self._keep * self._total + 1
        self._sum = self._keep * self._sum + actual
        low, high = self._range or (actual, actual)
        self._range = min(low, actual), max(high, actual)

    def score(self) -> PredictionScore:
        """How good the predictions in the window were. Takes a time that grows with the window."""
        if not self._scored:
            return PredictionScore(0, None, None, None)
        predicted, actual = np.array(self._scored, dtype=np.float64).T
        return PredictionScore(
            len(predicted),
            r_squared(predicted, actual),
            rank_correlation(predicted, actual),
            long_recall(predicted, actual, self._cut),
        )

    def state_dict(self) -> dict[str, Any]:
        """JSON-able state."""
        return {
            "gram": self._gram.tolist(),
            "moment": self._moment.tolist(),
            "classes": list(self._classes),
            "tasks": {task: list(sums) for task, sums in self._tasks.items()},
            "all": [self._total, self._sum],
            "range": self._range and list(self._range),
            "scored": [list(pair) for pair in self._scored],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over a saved state.

        Raises:
            ConfigError: it was saved with another ``max_classes``.
        """
        gram = np.array(state["gram"], dtype=np.float64)
        if gram.shape != self._gram.shape:
            raise ConfigError(
                f"the saved predictor has max_classes={len(gram) - _NUM_FIXED - 1}, this one has "
                f"{self._max_classes}: give it the saved number, or start it afresh"
            )
        self._gram, self._moment = gram, np.array(state["moment"], dtype=np.float64)
        self._weights = None
        self._classes = {name: number for number, name in enumerate(state["classes"])}
        tasks: Mapping[str, tuple[float, float]] = state["tasks"]
        latest = islice(tasks.items(), max(0, len(tasks) - self._max_tasks), None)
        self._tasks = {task: (float(weight), float(excess)) for task, (weight, excess) in latest}
        self._total, self._sum = (float(number) for number in state["all"])
        low_high = state["range"]
        self._range = None if low_high is None else (float(low_high[0]), float(low_high[1]))
        pairs = ((float(guess), float(actual)) for guess, actual in state["scored"])
        self._scored = deque(pairs, maxlen=self._scored.maxlen)

    # ---- the regression --------------------------------------------------------------------------

    def _features(
        self, task_id: str, prompt_chars: int, error_class: str, *, learn: bool = False
    ) -> Floats:
        weight, excess = self._tasks.get(task_id, (0.0, 0.0))
        number = self._classes.get(error_class)
        if number is None:
            number = min(len(self._classes), self._max_classes)
            if learn and number < self._max_classes:
                self._classes[error_class] = number
        features: Floats = np.zeros(len(self._moment))
        features[0] = 1.0
        features[1] = excess / (weight + self._shrinkage)
        if prompt_chars > 0:
            features[2] = math.log(prompt_chars) - _PROMPT_SCALE
        elif self._total:  # the mean of those observed
            features[2] = self._gram[0, 2] / self._gram[0, 0]
        features[_NUM_FIXED + number] = 1.0
        return features

    def _predict_log(self, features: Floats) -> float:
        if self._range is None:
            return 0.0
        weights = self._weights
        if weights is None:
            # A trace of ridge on the constant: it and the classes that were seen are collinear.
            penalty = np.full(len(features), self._ridge)
            penalty[0] = 1e-6 * self._ridge
            solved = np.linalg.solve(self._gram + np.diag(penalty), self._moment)
            weights = self._weights = np.asarray(solved, dtype=np.float64)
        low, high = self._range
        return min(max(float(features @ weights), low), high)


def r_squared(predicted: Floats, actual: Floats) -> float | None:
    """1 − Σ(actual − predicted)² / Σ(actual − mean)², of [num] each; None if ``actual`` does not vary."""
    total = float(np.sum((actual - actual.mean()) ** 2))
    return 1 - float(np.sum((actual - predicted) ** 2)) / total if total > 0 else None


def rank_correlation(first: Floats, second: Floats) -> float | None:
    """Spearman's rank correlation of [num] each; None if one of them does not vary."""
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return None
    return float(np.corrcoef(_ranks(first), _ranks(second))[0, 1])


def long_recall(predicted: Floats, actual: Floats, cut: float) -> float | None:
    """Of the k long ones, the share among the k predicted longest: what launching longest-first catches.

    Args:
        predicted: [num], log seconds; where the k-th is tied, the tied count by their share.
        actual: [num], log seconds.
        cut: multiple of the median above which one is long.
    """
    is_long = actual > np.median(actual) + math.log(cut)
    num_long = int(is_long.sum())
    if num_long == 0:
        return None
    border = np.partition(predicted, -num_long)[-num_long]
    above, tied = predicted > border, predicted == border
    share = (num_long - above.sum()) / tied.sum()
    return float(((above & is_long).sum() + share * (tied & is_long).sum()) / num_long)


def _ranks(values: Floats) -> Floats:
    """Ranks from 0 [num]; ties get their mean."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts) - 1
    mean: Floats = (last - (counts - 1) / 2).astype(np.float64)
    return mean[which]


def _log(seconds: float) -> float:
    if not 0 <= seconds < math.inf:
        raise ConfigError(f"seconds={seconds} is no duration")
    return math.log(max(seconds, _SHORTEST))
