"""Keeps the kinds of tasks in balance: quotas for error classes, tempered weights for repositories.

A class of n tasks out of N gets a share of the draws in proportion to n^power: 1 leaves the tasks as they
come, 0 gives every class the same. In between, rare classes are drawn more often than they occur, and
common ones still most (the temperature of multilingual training; arXiv 1907.05019, §4.1). Shares can also
be given.

Shares are kept by counting, not by chance: each draw adds a class's share to its credit, and the class with
most credit has its turn and pays 1. Over any number of draws a class has less than one draw too many, and
at most (number of classes − 1) too few. Rejected: a random class a draw. Its error grows with √draws, and a
class with a share of 1 % is left out of a quarter of all runs of 138 draws.

A class whose tasks all lie outside the band teaches little, so a quota need not be kept at any price:
``strength`` mixes it with what the selector's weights would give, geometrically.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from agentic_gym.errors import ConfigError
from agentic_gym.suggest import nearest_or_all
from agentic_gym.trainers.selection.base import GroupResult, TaskFacts, in_order
from agentic_gym.trainers.selection.posterior import Floats

_EXPECTED = 4.0
"""Groups that a class must have been due before it can be said to starve: with fewer, none may be chance."""


class Diversity:
    """See the module. Works on the weights of any selector.

    Args:
        tasks: of the run.
        class_power: of the sizes of error classes, from 0 to 1.
        repo_power: of the sizes of repositories, from 0 to 1.
        quotas: shares of some classes; the others have the rest.
        strength: 1 keeps the shares whatever the weights say, 0 follows the weights.
        alarm_share: a class starves that was trained less than this part of its share …
        alarm_window: … of so many trained groups.

    Raises:
        ConfigError: a number is out of range, or a quota is of a class that no task has.
    """

    def __init__(
        self,
        tasks: Sequence[TaskFacts],
        *,
        class_power: float = 0.5,
        repo_power: float = 0.5,
        quotas: Mapping[str, float] | None = None,
        strength: float = 0.5,
        alarm_share: float = 0.25,
        alarm_window: int = 256,
    ) -> None:
        for name, value in (
            ("class_power", class_power),
            ("repo_power", repo_power),
            ("strength", strength),
            ("alarm_share", alarm_share),
        ):
            if not 0 <= value <= 1:
                raise ConfigError(f"{name}={value} must be from 0 to 1")
        if alarm_window < 1:
            raise ConfigError(f"alarm_window={alarm_window} must be positive")
        self._tasks = in_order(tasks)
        self._facts = {task.task_id: task for task in self._tasks}
        self._sizes = {
            "error_class": Counter(task.error_class for task in self._tasks),
            "repo": Counter(task.repo for task in self._tasks),
        }
        self._names = sorted(self._sizes["error_class"])
        self._class_of = np.array([self._names.index(task.error_class) for task in self._tasks])
        self._shares = self._make_shares(class_power, dict(quotas or {}))
        # A repository's tasks together weigh n^power, so one of them n^(power - 1).
        self._factors = np.array(
            [float(self._sizes["repo"][task.repo]) ** (repo_power - 1) for task in self._tasks]
        )
        self._strength, self._alarm_share = strength, alarm_share
        self._credit: Floats = np.zeros(len(self._names))
        self._trained: dict[str, Counter[str]] = {axis: Counter() for axis in self._sizes}
        self._recent: deque[str] = deque(maxlen=alarm_window)

    @property
    def task_ids(self) -> tuple[str, ...]:
        """Of the tasks, in the order of the weights."""
        return tuple(self._facts)

    @property
    def shares(self) -> dict[str, float]:
        """Of the draws that each error class is due by its quota; they add up to 1."""
        return dict(zip(self._names, map(float, self._shares), strict=True))

    def take_turn(self, weights: Floats) -> Floats:
        """Weights of the tasks of the class whose turn it is, 0 for the others. [N]

        Args:
            weights: of the tasks, in the order of :attr:`task_ids`; none negative, one positive. [N]
        """
        weights = weights * self._factors
        totals = np.bincount(self._class_of, weights, minlength=len(self._names))
        possible = totals > 0
        due = np.zeros(len(totals))
        due[possible] = self._shares[possible] ** self._strength * (
            totals[possible] / totals.sum()
        ) ** (1 - self._strength)
        self._credit += due / due.sum()
        chosen = int(np.argmax(np.where(possible, self._credit, -np.inf)))
        self._credit[chosen] -= 1.0
        return np.where(self._class_of == chosen, weights, 0.0)

    def observe(self, results: Sequence[GroupResult]) -> None:
        """Takes in the groups of a batch; those that were refused count for nothing here."""
        for result in sorted(results, key=lambda result: result.group):
            task = self._facts.get(result.task_id)
            if task is None or not result.trained:
                continue
            self._trained["error_class"][task.error_class] += 1
            self._trained["repo"][task.repo] += 1
            self._recent.append(task.error_class)

    def starving(self) -> list[str]:
        """Error classes that were trained far less than their quota of late, sorted."""
        counts = Counter(self._recent)
        return [
            name
            for name, share in self.shares.items()
            if share * len(self._recent) >= _EXPECTED
            and counts[name] < self._alarm_share * share * len(self._recent)
        ]

    def metrics(self) -> dict[str, float]:
        """How many classes starve, and the trained share of each class of late."""
        found = {"selection_starving_classes": float(len(self.starving()))}
        if self._recent:
            counts = Counter(self._recent)
            found |= {
                f"selection_class_{name}": counts[name] / len(self._recent) for name in self._names
            }
        return found

    def summary(self) -> dict[str, dict[str, dict[str, float]]]:
        """For the report: by axis and name, tasks available and groups trained.

        Of a class also its quota, and 1 if it starves.
        """
        starving = self.starving()
        return {
            axis: {
                name: {
                    "available": float(sizes[name]),
                    "trained": float(self._trained[axis][name]),
                    **(
                        {"quota": self.shares[name], "starving": float(name in starving)}
                        if axis == "error_class"
                        else {}
                    ),
                }
                for name in sorted(sizes)
            }
            for axis, sizes in self._sizes.items()
        }

    def state_dict(self) -> dict[str, Any]:
        """Credits, and what was trained."""
        return {
            "credit": dict(zip(self._names, map(float, self._credit), strict=True)),
            "trained": {axis: dict(counts) for axis, counts in self._trained.items()},
            "recent": list(self._recent),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over a saved state.

        Raises:
            ConfigError: it was saved with other error classes.
        """
        if sorted(state["credit"]) != self._names:
            raise ConfigError(
                f"the saved selection has the error classes {', '.join(sorted(state['credit']))}, this run "
                f"{', '.join(self._names)}: resume with the tasks that the run began with"
            )
        self._credit = np.array([float(state["credit"][name]) for name in self._names])
        self._trained = {axis: Counter(state["trained"][axis]) for axis in self._sizes}
        self._recent = deque(state["recent"], maxlen=self._recent.maxlen)

    def _make_shares(self, power: float, quotas: dict[str, float]) -> Floats:
        for name, share in quotas.items():
            if name not in self._names:
                raise ConfigError(
                    f"quotas: no task has the error class {name!r}.{nearest_or_all(name, self._names)}"
                )
            if not 0 < share <= 1:
                raise ConfigError(f"quotas: {name}={share} is a share: over 0, at most 1")
        rest = 1.0 - sum(quotas.values())
        sizes = self._sizes["error_class"]
        others = {name: float(sizes[name]) ** power for name in self._names if name not in quotas}
        if rest < -1e-9 or (others and rest < 1e-9) or (not others and rest > 1e-9):
            words = "leave something for the other classes" if others else "add up to 1"
            raise ConfigError(f"quotas add up to {1.0 - rest:g}: they must {words}")
        total = sum(others.values())
        shares = [
            quotas[name] if name in quotas else rest * others[name] / total for name in self._names
        ]
        made: Floats = np.array(shares)
        return made
