"""Asynchronous rollout with bounded staleness: generation never waits for the trainer, within limits.

Source: AReaL (arXiv 2505.24298, sections 4 and 5.1). Episodes stream; a batch is trained as soon as enough
whole groups are there; new weights reach the engine while episodes run. What the trainer does about tokens
that older weights sampled is not decided here: the decoupled loss (:mod:`agentic_gym.trainers.losses`) and
``staleness_decay`` (:mod:`agentic_gym.trainers.config`) are for that.

AReaL bounds staleness by admission alone. That is enough only if batches are taken in launch order; taking
what is finished breaks it. With eta=2 and batches of one, let a, b and c start at version 0. a is trained; d
starts at version 1, finishes first and is trained; now b and c are both due by version 2, and only one fits.
So it is too late to wait only for groups that are due in the next batch: every batch has to leave the later
ones feasible. Dropping b or c was rejected, since it selects for short episodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from heapq import heappop, heappush
from typing import Any, Literal, get_args

from agentic_gym.engines.base import PublishMode
from agentic_gym.errors import ConfigError
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
    parse_id,
)
from agentic_gym.trainers.schedules.groups import GroupBook, State, check_batch
from agentic_gym.trainers.schedules.window import Window

OnPublish = Literal["interrupt", "keep_kv", "wait"]
"""What becomes of requests that run while new weights are loaded: see :class:`BoundedAsync`."""

_MODES: dict[OnPublish, PublishMode] = {"interrupt": "keep", "keep_kv": "keep_kv", "wait": "wait"}


class BoundedAsync:
    """Asynchronous batches of bounded staleness.

    A trajectory whose oldest weights have version v is trained when the trainer has version
    ``v + max_staleness`` at the latest: that update is its deadline. Batches are made of complete groups,
    oldest weights first, then in launch order. A batch waits for a group that still runs only where the
    bound would be broken without it. Nothing is dropped but what broke or is refused.

    Why the bound holds: :class:`~agentic_gym.trainers.schedules.window.Window` counts the untrained groups
    by version and keeps their number such that all of them can be trained in time, (W) for short.

    - Launching keeps (W): ``Window.room`` is asked, for the oldest version that a replica serves, since
      the driver may place the group there. For the newest version this is AReaL's capacity.
    - Emitting keeps (W) for the update after: ``Window.may_emit``. Once all is complete the oldest groups
      are such a batch, so this never waits forever.
    - Finishing changes no count. A drop takes a group out. A broken trajectory is sampled anew by weights
      no older than before, or is held until such are served (:meth:`_fail`): its deadline can only move
      away. A restart brings the true version of the first token, and what was counted is the oldest that
      was served at the launch: again the deadline can only move away.
    - What was launched by another schedule, or under other options, may come with more that is due than (W)
      allows. It is trained first and never dropped; what is launched beside it is in time.

    With ``max_staleness=0`` a batch is launched when the weights of its update are served, as in
    :class:`~agentic_gym.trainers.schedules.sync.Sync`.

    Args:
        batch_size: trajectories of an update.
        group_size: trajectories of one task, launched together.
        max_staleness: eta of the paper: updates that the oldest weights of a trained trajectory may be behind
            the trainer's.
        max_concurrent: trajectories that run at once; at least a group.
        on_publish: what becomes of requests that run. ``interrupt``: they go on under the new weights
            after an exact re-prefill; tokens of one trajectory have several versions. ``keep_kv``: they
            go on, with keys and values of the old weights. ``wait``: they finish under the old weights
            first.
        max_retries: how often a broken trajectory is tried again.
        max_lost_groups: groups lost in a row, with none completed between, before the run halts.

    Raises:
        ConfigError: a number or a word is out of range.
    """

    def __init__(
        self,
        batch_size: int,
        group_size: int = 1,
        *,
        max_staleness: int,
        max_concurrent: int,
        on_publish: OnPublish = "interrupt",
        max_retries: int = 2,
        max_lost_groups: int = 8,
    ) -> None:
        self._wanted = check_batch(batch_size, group_size)
        self._book = GroupBook(group_size, max_retries=max_retries, max_lost_groups=max_lost_groups)
        if max_staleness < 0:
            raise ConfigError(
                f"max_staleness={max_staleness} must not be negative: 0 trains only what the newest "
                "weights sampled"
            )
        if max_concurrent < group_size:
            raise ConfigError(
                f"max_concurrent={max_concurrent} leaves no room for a group of {group_size}: "
                "raise it, or lower group_size"
            )
        if on_publish not in _MODES:
            raise ConfigError(
                f"on_publish={on_publish!r} is none of {', '.join(map(repr, get_args(OnPublish)))}"
            )
        self._max_staleness = max_staleness
        self._max_concurrent = max_concurrent
        self._mode = _MODES[on_publish]
        self._version = 0
        self._window = Window(max_staleness, self._wanted)
        self._replicas: dict[int, int] = {}  # version that each serves
        self._served = -1  # the oldest of these; -1: there is no replica
        self._held: list[tuple[int, str]] = []  # heap of parked ones: (version, name)

    def handle(self, event: Event) -> list[Action]:
        """See :class:`~agentic_gym.trainers.schedules.base.Schedule`."""
        match event:
            case Begun():
                return self._begin(event)
            case Finished(name):
                return self._finish(name)
            case Failed(name, reason, final):
                actions = self._fail(name, reason, final)
                halted = any(isinstance(action, Halt) for action in actions)
                return actions if halted else actions + self._advance()
            case Trained(version):
                self._version = self._window.update = version
                return [Publish(mode=self._mode), *self._advance()]
            case Published(version, replica):
                if replica in self._replicas:
                    self._serves(replica, version)
                return self._advance()
            case ReplicaUp(replica, version):
                self._serves(replica, version)
                # It runs nothing: what is sent there meanwhile waits for the new weights.
                stale = version != self._version
                return [*([Publish((replica,))] if stale else []), *self._advance()]
            case ReplicaDown(replica):
                self._serves(replica, None)
                return self._advance()
            case Tick():
                return []

    def state_dict(self) -> dict[str, Any]:
        """See :class:`~agentic_gym.trainers.schedules.base.Schedule`."""
        return self._book.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See :class:`~agentic_gym.trainers.schedules.base.Schedule`."""
        self._book.load_state_dict(state)

    # ---- events ----------------------------------------------------------------------------------

    def _begin(self, event: Begun) -> list[Action]:
        book = self._book
        self._version, self._replicas = event.version, dict(event.replicas)
        self._served = min(self._replicas.values(), default=-1)
        actions = book.begin(event)
        self._window = Window(self._max_staleness, self._wanted, event.version)
        for number, group in book.groups.items():
            self._window.enter(group.version)
            if group.complete:
                self._window.complete(group.version, number)
        self._held = sorted((member.version, name) for name, member in book.members(State.PARKED))
        stale = tuple(r for r, version in event.replicas.items() if version != event.version)
        if stale:
            actions.append(Publish(stale))
        return actions + self._advance()

    def _serves(self, replica: int, version: int | None) -> None:
        if version is None:
            self._replicas.pop(replica, None)
        else:
            self._replicas[replica] = version
        self._served = min(self._replicas.values(), default=-1)

    def _finish(self, name: str) -> list[Action]:
        if not self._book.finish(name):
            return []
        group = self._book.groups[parse_id(name)[0]]
        if group.complete:
            self._window.complete(group.version, group.number)
        return self._advance()

    def _fail(self, name: str, reason: str, final: bool) -> list[Action]:
        book, number = self._book, parse_id(name)[0]
        member = book.find(name)
        if member is None or member.state is State.FINISHED:
            return []
        self._window.leave(book.groups[number].version)
        fresh = self._served >= member.version
        actions = book.fail(name, reason, version=self._served if fresh else None, final=final)
        if number in book.groups:
            self._window.enter(book.groups[number].version)
            if not fresh:
                # A replica came back with weights so old that the deadline would come closer.
                actions.append(book.park(name))
                heappush(self._held, (member.version, name))
        return actions

    # ---- what follows ----------------------------------------------------------------------------

    def _advance(self) -> list[Action]:
        """Emits a batch if there is one, carries on what is held, and launches what there is room for."""
        book, window = self._book, self._window
        actions: list[Action] = []
        if window.update == self._version and window.may_emit():
            actions.append(Emit(book.take([book.groups[number] for number in window.take()])))
        while self._held and self._held[0][0] <= self._served and self._idle > 0:
            name = heappop(self._held)[1]
            member = book.find(name)
            if member is not None and member.state is State.PARKED:  # no late result came meanwhile
                actions.append(book.resume(name))
        for _ in range(self._num_launches()):
            # The driver places it; whichever replica it takes, its weights are no older than this.
            window.enter(self._served)
            actions.append(book.launch(self._served))
        return actions

    @property
    def _idle(self) -> int:
        """Trajectories that may run besides those that do."""
        return self._max_concurrent - self._book.counts[State.RUNNING]

    def _num_launches(self) -> int:
        """Groups that may be launched now; what is parked comes first."""
        idle = (self._idle - self._book.counts[State.PARKED]) // self._book.group_size
        if idle <= 0 or self._served < 0:
            return 0
        return min(idle, self._window.room(self._served))
