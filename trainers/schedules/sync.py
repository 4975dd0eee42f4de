"""The synchronous schedule: launch a batch, wait for all of it, train, publish, repeat.

Every token is sampled by the weights that the update starts from. The price is that the engine idles
while the longest episode ends and while the trainer works.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

from agentic_gym.trainers.schedules.base import (
    Action,
    Begun,
    Emit,
    Event,
    Failed,
    Finished,
    Halt,
    Publish,
    Published,
    ReplicaDown,
    ReplicaUp,
    Tick,
    Trained,
)
from agentic_gym.trainers.schedules.groups import GroupBook, State, check_batch
from agentic_gym.trainers.schedules.staging import Stager


class Sync:
    """Synchronous batches.

    Args:
        batch_size: trajectories of an update.
        group_size: trajectories of one task, launched together.
        max_retries: how often a broken trajectory is tried again.
        max_lost_groups: groups lost in a row, with none completed between, before the run halts.
        stage: say of each group of the batch that it is complete, for a trainer that begins before all are.
    """

    def __init__(
        self,
        batch_size: int,
        group_size: int = 1,
        *,
        max_retries: int = 2,
        max_lost_groups: int = 8,
        stage: bool = False,
    ) -> None:
        self._wanted = check_batch(batch_size, group_size)
        self._book = GroupBook(group_size, max_retries=max_retries, max_lost_groups=max_lost_groups)
        self._stager = Stager(stage)
        self._version = 0
        self._replicas: set[int] = set()
        self._stale: set[int] = set()  # replicas that have not loaded the newest weights yet
        self._training = False

    def handle(self, event: Event) -> list[Action]:
        """See :class:`~agentic_gym.trainers.schedules.base.Schedule`."""
        match event:
            case Begun():
                return self._begin(event)
            case Finished(name):
                return self._advance() if self._book.finish(name) else []
            case Failed(name, reason, final):
                actions = self._book.fail(name, reason, final=final)
                halted = any(isinstance(action, Halt) for action in actions)
                return actions if halted else actions + self._advance()
            case Trained(version):
                self._version, self._stale = version, set(self._replicas)
                self._training = False
                return [Publish()]
            case Published(version, replica):
                if version == self._version:
                    self._stale.discard(replica)
                return self._advance()
            case ReplicaUp(replica, version):
                self._replicas.add(replica)
                if version == self._version:
                    return self._advance()
                self._stale.add(replica)
                return [Publish((replica,))]
            case ReplicaDown(replica):
                self._replicas.discard(replica)
                self._stale.discard(replica)
                return self._advance()
            case Tick():
                return []

    def state_dict(self) -> dict[str, Any]:
        """See :class:`~agentic_gym.trainers.schedules.base.Schedule`."""
        return self._book.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See :class:`~agentic_gym.trainers.schedules.base.Schedule`."""
        self._book.load_state_dict(state)

    def _begin(self, event: Begun) -> list[Action]:
        self._version, self._replicas = event.version, set(event.replicas)
        self._training = False
        stale = tuple(r for r, version in event.replicas.items() if version != event.version)
        self._stale = set(stale)
        actions = self._book.begin(event)
        if stale:
            actions.append(Publish(stale))
        actions += [self._book.resume(name) for name, _ in list(self._book.members(State.PARKED))]
        return actions + self._advance()

    def _advance(self) -> list[Action]:
        """Fills up the batch, and emits it once all of it is finished."""
        if self._training or self._stale:
            return []
        book = self._book
        actions: list[Action] = []
        while len(book.groups) < self._wanted:
            actions.append(book.launch(self._version))
        if len(book.complete) >= self._wanted:
            batch = list(islice(book.groups.values(), self._wanted))
            if all(group.complete for group in batch):
                # In launch order, whatever order they finished in: the same batch after a restart.
                self._training = True
                return [*actions, Emit(book.take(batch))]
        # A loss moves the others forward: a group among the first stays there until the batch.
        return actions + self._stager.stage(book.complete, islice(book.groups, self._wanted))
