"""What every task selector is given and gives: facts of tasks, results of groups, the next task.

A selector chooses tasks before anything is played, and learns from results only when their batch is
recorded, all groups of a batch at once. So nothing that it chooses by was measured on the samples that are
trained next (they would be selected for their luck, not for their task), and the order in which groups
happen to finish, quick ones first, changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from agentic_gym.errors import ConfigError
from agentic_gym.trainers.schedules.base import parse_id
from agentic_gym.types import Outcome, Trajectory

UNKNOWN = "other"
"""Error class, and repository, of a task that has none."""


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """What is known of a task before it is played.

    Attributes:
        task_id: distinct within a run.
        error_class: what its tests show before the repair.
        repo: repository or module that it comes from.
        difficulty: a guess of the share of failed tries, from 0 to 1; None for no guess.

    Raises:
        ConfigError: the difficulty is out of range.
    """

    task_id: str
    error_class: str = UNKNOWN
    repo: str = UNKNOWN
    difficulty: float | None = None

    def __post_init__(self) -> None:
        if self.difficulty is not None and not 0 <= self.difficulty <= 1:
            raise ConfigError(
                f"difficulty={self.difficulty} of task {self.task_id!r} is a share of failed tries: "
                "from 0 to 1, or None for no guess"
            )


@dataclass(frozen=True, slots=True)
class GroupResult:
    """What became of a group.

    Attributes:
        group: its number.
        task_id: that it played.
        solved: trajectories that solved it.
        total: trajectories that count: all but those that ended as ``infra_error``. A truncated one and a
            suspected hack count as not solved.
        trained: it is in the batch. False: it was played and refused (:mod:`.refill`); its outcomes count all
            the same, or easy tasks would seem as hard as their mixed groups.

    Raises:
        ConfigError: not 0 ≤ solved ≤ total.
    """

    group: int
    task_id: str
    solved: int
    total: int
    trained: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.solved <= self.total:
            raise ConfigError(
                f"group {self.group}: {self.solved} solved of {self.total}: give 0 ≤ solved ≤ total"
            )


class TaskSelector(Protocol):
    """Gives the tasks of a run, one a group; its state is saved with the run.

    A selector that learns nothing derives from this class and leaves ``observe`` as it is.
    """

    def next_task(self) -> str:
        """Id of the next task."""
        ...

    def observe(self, update: int, results: Sequence[GroupResult]) -> None:
        """The batch of an update is recorded.

        Called once an update, before the next task is asked for; a second call for an update, or one for an
        earlier update, changes nothing, so that a restart may tell it again.

        Args:
            update: number of the update; they rise.
            results: of the batch's groups, and of those refused since the batch before, in any order.
        """
        return

    def metrics(self) -> dict[str, float]:
        """Figures of the last draws, by name, for every update."""
        return {}

    def summary(self) -> dict[str, dict[str, dict[str, float]]]:
        """For the report: by axis ("error_class", "repo") and name, what there is and what was trained."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """JSON-able state."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over a saved state; from there on, the draws are those of the selector that saved it.

        Raises:
            ConfigError: another kind of selector saved it, or one with other tasks.
        """
        ...


class UniformTasks(TaskSelector):
    """Every task once in random order, then all again in another.

    Args:
        task_ids: distinct ids, at least one.
        seed: of the orders.
    """

    def __init__(self, task_ids: Sequence[str], *, seed: int = 0) -> None:
        check_distinct(task_ids)
        self._ids = tuple(task_ids)
        self._seed = seed
        self._cursor = 0

    def next_task(self) -> str:
        """The task under the cursor, which then moves on."""
        lap, place = divmod(self._cursor, len(self._ids))
        self._cursor += 1
        order = np.random.default_rng([self._seed, lap]).permutation(len(self._ids))
        return self._ids[int(order[place])]

    def state_dict(self) -> dict[str, Any]:
        """The cursor."""
        return {"cursor": self._cursor}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Moves the cursor."""
        if "cursor" not in state:
            raise ConfigError(
                f"the saved selection is of {state.get('kind', 'another selector')}, not of uniform tasks: "
                "resume the run with the selector that it began with"
            )
        self._cursor = int(state["cursor"])


def check_distinct(task_ids: Sequence[str]) -> None:
    """Refuses an empty list of tasks, and one that holds a task twice.

    Raises:
        ConfigError: as said.
    """
    if not task_ids or len(set(task_ids)) != len(task_ids):
        raise ConfigError(f"task ids must be distinct, at least one; got {len(task_ids)}")


def in_order(tasks: Sequence[TaskFacts]) -> tuple[TaskFacts, ...]:
    """The tasks sorted by id, so that draws do not depend on how they were listed.

    Raises:
        ConfigError: there is none, or an id comes twice.
    """
    check_distinct([task.task_id for task in tasks])
    return tuple(sorted(tasks, key=lambda task: task.task_id))


def facts_of(task: Any) -> TaskFacts:
    """The facts of an environment's task: its ``task_id``, and the other fields where it has them."""
    return TaskFacts(
        task.task_id,
        getattr(task, "error_class", None) or UNKNOWN,
        getattr(task, "repo", None) or UNKNOWN,
        getattr(task, "difficulty", None),
    )


def group_results(trajectories: Iterable[Trajectory], *, trained: bool = True) -> list[GroupResult]:
    """Results of the groups that these trajectories form, in the order of their first members.

    Args:
        trajectories: launched by a schedule (their ids say the group).
        trained: they are in a batch.
    """
    groups: dict[int, list[Trajectory]] = {}
    for trajectory in trajectories:
        groups.setdefault(parse_id(trajectory.trajectory_id)[0], []).append(trajectory)
    results = []
    for number, members in groups.items():
        counted = [t.outcome for t in members if t.outcome is not Outcome.INFRA_ERROR]
        solved = sum(outcome is Outcome.SOLVED for outcome in counted)
        results.append(GroupResult(number, members[0].task_id, solved, len(counted), trained))
    return results
