"""Draws tasks by weights: what all selectors but the uniform one share.

A draw is fixed by the seed, its number, and what was observed before it, so a restart goes on with the same
draws. Every ⌈1/explore⌉-th draw explores: it takes the task that was drawn longest ago, whatever the
weights say. So no task waits for more than ⌈tasks/explore⌉ draws. Rejected: a random task with probability
``explore``; it covers all of N tasks only after about N·ln N such draws, with no bound.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from agentic_gym.errors import ConfigError
from agentic_gym.trainers.selection.base import GroupResult, TaskFacts, TaskSelector, in_order
from agentic_gym.trainers.selection.diversity import Diversity
from agentic_gym.trainers.selection.posterior import Floats, places_of

_ORDER = 2**32 - 1
"""Stands in the seed for the order of tasks that were never drawn; no run draws so often."""


class WeightedTasks(TaskSelector):
    """Tasks by weights; all weigh the same, unless a class derived from this one says otherwise.

    Args:
        tasks: of the run, in any order.
        seed: of the draws.
        diversity: keeps classes and repositories in balance; None: nothing does.
        explore: share of draws that take the task drawn longest ago, from 0 to 1.
        spacing: draws that lie between two of one task at least (at most half of the tasks); so a batch
            of up to so many groups plays each task once.
        window: draws that the metrics look back.

    Raises:
        ConfigError: a number is out of range, tasks are not distinct, or ``diversity`` has others.
    """

    kind = "weighted"
    """Of selector, in the saved state."""

    def __init__(
        self,
        tasks: Sequence[TaskFacts],
        *,
        seed: int = 0,
        diversity: Diversity | None = None,
        explore: float = 0.1,
        spacing: int = 16,
        window: int = 256,
    ) -> None:
        if not 0 <= explore <= 1:
            raise ConfigError(f"explore={explore} is a share of the draws: from 0 to 1")
        if spacing < 0 or window < 1:
            raise ConfigError(
                f"spacing={spacing} must not be negative, window={window} must be positive"
            )
        self._tasks = in_order(tasks)
        self._places = {task.task_id: place for place, task in enumerate(self._tasks)}
        if diversity is not None and diversity.task_ids != tuple(self._places):
            raise ConfigError("diversity was made for other tasks than the selector: give it these")
        self._seed, self._explore = seed, explore
        self._spacing = min(spacing, len(self._tasks) // 2)
        self._diversity = diversity
        self._draws = 0
        self._update: int | None = None
        # Number of each task's last draw; those never drawn are below all draws, in an order of their own.
        order = np.random.default_rng([seed, _ORDER]).permutation(len(self._tasks))
        self._last = order.astype(np.int64) - len(self._tasks)
        self._recent: deque[tuple[str, bool, float]] = deque(maxlen=window)

    # ---- what a derived class may change -----------------------------------------------------------

    def weigh(self, rng: np.random.Generator) -> Floats:
        """Weights of the tasks, sorted by id, for one draw: none negative, one positive. [N]"""
        return np.ones(len(self._tasks))

    def learn(self, update: int, results: Sequence[GroupResult]) -> None:
        """Takes in the results of an update that was not observed before."""

    def inside(self, place: int) -> float:
        """Probability that a task lies in the band; NaN where there is none."""
        return math.nan

    # ---- the selector ------------------------------------------------------------------------------

    def next_task(self) -> str:
        """A task, by exploration or by weight."""
        draw, self._draws = self._draws, self._draws + 1
        explored = math.floor(self._draws * self._explore) > math.floor(draw * self._explore)
        if explored:
            place = int(np.argmin(self._last))
        else:
            rng = np.random.default_rng(np.random.SeedSequence([self._seed, draw]))
            weights = self.weigh(rng)
            if self._diversity is not None:
                weights = self._diversity.take_turn(weights)
            place = _pick(rng, self._spaced(weights, draw))
        self._last[place] = draw
        task_id = self._tasks[place].task_id
        self._recent.append((task_id, explored, self.inside(place)))
        return task_id

    def observe(self, update: int, results: Sequence[GroupResult]) -> None:
        """See :class:`~.base.TaskSelector`."""
        if self._update is not None and update <= self._update:
            return
        self._update = update
        self.learn(update, results)
        if self._diversity is not None:
            self._diversity.observe(results)

    def metrics(self) -> dict[str, float]:
        """Of the last draws: the share that explored, how many different tasks (Hill number of order 2: n
        tasks drawn equally often count n), and the share in the band as far as one knew at the draw."""
        found: dict[str, float] = {}
        if self._recent:
            counts = np.array(list(Counter(task for task, *_ in self._recent).values()))
            found["selection_explored"] = sum(e for _, e, _ in self._recent) / len(self._recent)
            found["selection_effective_tasks"] = float(counts.sum() ** 2 / (counts**2).sum())
            inside = [share for *_, share in self._recent if not math.isnan(share)]
            if inside:
                found["selection_in_band"] = sum(inside) / len(inside)
        return found if self._diversity is None else found | self._diversity.metrics()

    def summary(self) -> dict[str, dict[str, dict[str, float]]]:
        """For the report: what was trained and what there is, by error class and by repository."""
        return {} if self._diversity is None else self._diversity.summary()

    def state_dict(self) -> dict[str, Any]:
        """Number of draws and of the last update observed, when each task was drawn, what metrics need."""
        drawn = np.flatnonzero(self._last >= 0)
        diversity = None if self._diversity is None else self._diversity.state_dict()
        return {
            "kind": self.kind,
            "draws": self._draws,
            "update": self._update,
            "last": {self._tasks[place].task_id: int(self._last[place]) for place in drawn},
            "recent": [
                [task, explored, None if math.isnan(inside) else inside]
                for task, explored, inside in self._recent
            ],
            "diversity": diversity,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See :class:`~.base.TaskSelector`."""
        kind, saved = state.get("kind", "uniform"), state.get("diversity")
        if kind != self.kind or (saved is None) != (self._diversity is None):
            words = ["without diversity", "with diversity"]
            raise ConfigError(
                f"the saved selection is {kind} {words[saved is not None]}, this run's {self.kind} "
                f"{words[self._diversity is not None]}: resume the run with the selector that it began with"
            )
        places = places_of(self._places, state["last"])
        self._draws, self._update = int(state["draws"]), state["update"]
        order = np.random.default_rng([self._seed, _ORDER]).permutation(len(self._tasks))
        self._last = order.astype(np.int64) - len(self._tasks)
        self._last[places] = list(state["last"].values())
        self._recent.clear()
        self._recent.extend(
            (task, bool(explored), math.nan if inside is None else float(inside))
            for task, explored, inside in state["recent"]
        )
        if self._diversity is not None:
            self._diversity.load_state_dict(state["diversity"])

    def _spaced(self, weights: Floats, draw: int) -> Floats:
        """Without the tasks that were drawn a moment ago; where none is left, the one drawn longest ago."""
        rested = np.where((self._last < 0) | (draw - self._last > self._spacing), weights, 0.0)
        if rested.any():
            return rested
        possible = weights > 0
        return np.where(possible & (self._last == self._last[possible].min()), weights, 0.0)


def _pick(rng: np.random.Generator, weights: Floats) -> int:
    """A place, with probability in proportion to its weight."""
    heights = np.cumsum(weights)
    place = int(np.searchsorted(heights, rng.random() * heights[-1], side="right"))
    # Rounding may give the total itself, which lies behind the last place with a weight.
    return min(place, int(np.flatnonzero(weights)[-1]))
