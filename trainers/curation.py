"""Which of the episodes that were played train, and what is learned of their tasks.

Custom rewards, dynamic sampling and filters act where an episode or a batch passes on its way to the
trainer; every drop has a reason that the ledger keeps. What is decided is saved with the state of the run,
and holds after a restart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agentic_gym.errors import TrainingError
from agentic_gym.rewards.rubric import Rubric
from agentic_gym.store import RunStore
from agentic_gym.trainers.schedules.base import group_id, parse_id
from agentic_gym.trainers.selection import TaskSelector
from agentic_gym.trainers.selection.base import group_results
from agentic_gym.trainers.selection.filters import TrajectoryFilter
from agentic_gym.trainers.selection.refill import REFUSED as REFUSED
from agentic_gym.trainers.selection.refill import Refill
from agentic_gym.types import Outcome, Trajectory


class Curation:
    """See the module.

    Args:
        tasks: that groups are launched for.
        rubric: custom rewards, added to those of the environment; None for none.
        refill: refuses finished groups; None: none is.
        group_size: trajectories with which a group is judged.
        filter: drops trajectories of a batch; None: none is.

    Attributes:
        finished: trajectories that wait for a batch, by group.
    """

    def __init__(
        self,
        tasks: TaskSelector,
        *,
        rubric: Rubric | None = None,
        refill: Refill | None = None,
        group_size: int = 1,
        filter: TrajectoryFilter | None = None,
    ) -> None:
        self.tasks = tasks
        self.rubric = rubric
        self._refill = refill
        self._group_size = group_size
        self._filter = filter
        self._observed = 0
        self._refused: dict[int, list[str]] = {}
        self._dropped: dict[str, int] = {}
        self.finished: dict[str, set[str]] = {}

    def finish(self, trajectory: Trajectory) -> None:
        """A trajectory is finished, and waits for a batch."""
        self.finished.setdefault(trajectory.group_id, set()).add(trajectory.trajectory_id)

    def forget(self, names: Iterable[str]) -> None:
        """These wait for a batch no more."""
        for name in names:
            group = group_id(parse_id(name)[0])
            if members := self.finished.get(group):
                members.discard(name)
                if not members:
                    del self.finished[group]

    def refuses(self, group: str, store: RunStore) -> bool:
        """Whether a group is to be dropped, and another played in its place.

        It is judged once, with the result that makes it complete (of more launched than needed, the rest is
        dropped anyway).
        """
        members = self.finished[group]
        if self._refill is None or len(members) != self._group_size:
            return False
        return self._refused_by(self._refill, store.trajectories(sorted(members)))

    def _refused_by(self, refill: Refill, group: Sequence[Trajectory]) -> bool:
        counted = [t for t in group if t.outcome is not Outcome.INFRA_ERROR]
        [result] = group_results(group)
        verdict = refill.judge(result, [t.reward for t in counted])
        if not verdict.keep:
            self._refused[result.group] = [t.trajectory_id for t in group]
        return not verdict.keep

    def refused(self) -> list[str]:
        """Trajectories of groups refused since the last batch: a restart drops again what is left of them."""
        return [name for names in self._refused.values() for name in names]

    def sift(self, update: int, batch: Sequence[Trajectory]) -> dict[str, str]:
        """Reasons of what is dropped from a batch, by trajectory id.

        Raises:
            TrainingError: nothing would be left.
        """
        if self._filter is None:
            return {}
        reasons: dict[str, str] = {}
        for group in _groups(batch):
            reasons |= self._filter.judge_group(group)
        if len(reasons) == len(batch):
            counts = {reason: list(reasons.values()).count(reason) for reason in reasons.values()}
            raise TrainingError(
                f"the filters drop all {len(batch)} trajectories of update {update} ({counts}): loosen them"
            )
        for reason in reasons.values():
            self._dropped[reason] = self._dropped.get(reason, 0) + 1
        return reasons

    def observe(self, update: int, batch: Sequence[Trajectory]) -> None:
        """The batch of an update is recorded: what was learned of its tasks."""
        if update <= self._observed:
            return
        results = group_results(batch)
        if self._refill is not None:
            results += self._refill.take_refused()
        self.tasks.observe(update, results)
        self._observed = update
        self._refused = {}

    def metrics(self) -> dict[str, float]:
        """Of tasks and groups so far, and of what was dropped since the last call."""
        dropped, self._dropped = self._dropped, {}
        found = {f"dropped/{reason}": float(count) for reason, count in dropped.items()}
        refill = {} if self._refill is None else self._refill.metrics()
        return {**found, **self.tasks.metrics(), **refill}

    @property
    def observed(self) -> int:
        """The last update whose batch was observed."""
        return self._observed

    def state_dict(self) -> dict[str, Any]:
        """JSON-able state."""
        return {
            "tasks": self.tasks.state_dict(),
            "observed": self._observed,
            "refused": [[group, names] for group, names in self._refused.items()],
            "refill": None if self._refill is None else self._refill.state_dict(),
            "filter": None if self._filter is None else self._filter.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over a saved state."""
        self.tasks.load_state_dict(state["tasks"])
        self._observed = int(state["observed"])
        self._refused = {int(group): list(names) for group, names in state["refused"]}
        if self._refill is not None and state["refill"] is not None:
            self._refill.load_state_dict(state["refill"])
        if self._filter is not None and state["filter"] is not None:
            self._filter.load_state_dict(state["filter"])


def _groups(batch: Iterable[Trajectory]) -> list[list[Trajectory]]:
    found: dict[str, list[Trajectory]] = {}
    for trajectory in batch:
        found.setdefault(trajectory.group_id, []).append(trajectory)
    return list(found.values())
