"""The synchronous schedule: launch a batch, wait for all of it, train, publish, repeat.

Every token is sampled by the weights that the update starts from. The price is that the engine idles
while the longest episode ends and while the trainer works.

Infrastructure errors never shrink or bias a batch: a trajectory that broke is tried again with the same
task and seed; if it keeps breaking, its whole group is dropped with a reason (a group without one member
has another baseline) and a new group takes its place. When group after group breaks, the run halts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agentic_gym.errors import ConfigError
from agentic_gym.trainers.schedules.base import (
    Action,
    Begun,
    Drop,
    Emit,
    Event,
    Failed,
    Finished,
    Halt,
    Launch,
    Publish,
    Published,
    Retry,
    Trained,
    parse_id,
    trajectory_id,
)


@dataclass(slots=True)
class Sync:
    """Synchronous batches.

    Attributes:
        batch_size: trajectories of an update.
        group_size: trajectories of one task, launched together.
        max_retries: how often a broken trajectory is tried again.
        max_lost_groups: groups lost in a row, with nothing finished between, before the run halts.
    """

    batch_size: int
    group_size: int = 1
    max_retries: int = 2
    max_lost_groups: int = 8
    _next_group: int = field(default=0, init=False)
    _groups: dict[int, dict[str, bool]] = field(default_factory=dict, init=False)
    """Members of each group in launch order, True where finished."""
    _retries: dict[str, int] = field(default_factory=dict, init=False)
    _lost: int = field(default=0, init=False)
    _rolling: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        if self.group_size < 1 or self.batch_size < 1 or self.batch_size % self.group_size:
            raise ConfigError(
                f"batch_size={self.batch_size} must be a positive multiple of "
                f"group_size={self.group_size}"
            )
        if self.max_retries < 0 or self.max_lost_groups < 0:
            raise ConfigError(
                f"max_retries={self.max_retries} and max_lost_groups={self.max_lost_groups} "
                "must not be negative"
            )

    def handle(self, event: Event) -> list[Action]:
        """See :class:`~agentic_gym.trainers.schedules.base.Schedule`."""
        match event:
            case Begun():
                return self._begin(event)
            case Finished(name):
                return self._finish(name)
            case Failed(name, reason):
                return self._fail(name, reason)
            case Trained():
                return [Publish()]
            case Published():
                self._rolling = True
                return self._advance()

    def state_dict(self) -> dict[str, Any]:
        """Retries so far; the ledger knows the rest."""
        return {"retries": dict(self._retries), "lost": self._lost}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See :class:`~agentic_gym.trainers.schedules.base.Schedule`."""
        self._retries = dict(state["retries"])
        self._lost = int(state["lost"])

    def _begin(self, event: Begun) -> list[Action]:
        self._next_group = event.next_group
        self._rolling = True
        self._groups = {}
        done = set(event.finished)
        for name in sorted([*event.running, *event.finished]):
            self._groups.setdefault(parse_id(name)[0], {})[name] = name in done
        actions: list[Action] = []
        for group in list(self._groups):
            # A kill may come between the drops of one group's members.
            if len(self._groups[group]) != self.group_size:
                actions += self._drop(group, "its group is not whole after a restart")
        return [*actions, *self._advance()]

    def _finish(self, name: str) -> list[Action]:
        members = self._groups.get(parse_id(name)[0], {})
        if name not in members:
            return []  # of a group that was dropped meanwhile
        members[name] = True
        self._retries.pop(name, None)
        self._lost = 0
        return self._advance()

    def _fail(self, name: str, reason: str) -> list[Action]:
        group = parse_id(name)[0]
        if name not in self._groups.get(group, {}):
            return []
        tries = self._retries.get(name, 0) + 1
        if tries <= self.max_retries:
            self._retries[name] = tries
            return [Retry(name)]
        self._lost += 1
        actions = self._drop(group, f"{name} broke {tries} times, last: {reason}")
        if self._lost > self.max_lost_groups:
            return [*actions, Halt(f"{self._lost} groups in a row broke; the last: {reason}")]
        return [*actions, *self._advance()]

    def _drop(self, group: int, reason: str) -> list[Action]:
        members = self._groups.pop(group)
        for name in members:
            self._retries.pop(name, None)
        return [Drop(name, reason) for name in members]

    def _advance(self) -> list[Action]:
        """Fills up the batch, and emits it once all of it is finished."""
        if not self._rolling:
            return []
        wanted = self.batch_size // self.group_size
        actions: list[Action] = []
        while len(self._groups) < wanted:
            group, self._next_group = self._next_group, self._next_group + 1
            names = [trajectory_id(group, member) for member in range(self.group_size)]
            self._groups[group] = dict.fromkeys(names, False)
            actions.append(Launch(group, self.group_size))
        first = sorted(self._groups)[:wanted]
        if all(all(self._groups[group].values()) for group in first):
            # In launch order, whatever order they finished in: the same batch after a restart.
            batch = tuple(name for group in first for name in self._groups.pop(group))
            self._rolling = False
            actions.append(Emit(batch))
        return actions
