"""The relay schedule (Laminar): replicas take new weights one by one, each when it runs nothing.

Source: Laminar (arXiv 2510.12633). The trainer never waits for a replica and no replica for another. A
replica fills up when it has loaded weights. Once newer ones exist it launches no more, and loads them when
its last trajectory ends, or when repacking has moved its last few to another replica of the same version.
So every trajectory is sampled by one version, and how stale it is when trained follows from how long it
took; ``max_staleness`` bounds it where that must not be left to chance.

Repacking compares the KV cache of a replica with the most that it held under these weights. To compare
it with the last look, as the paper does, was tried: the cache of a straggler grows with every token, so a
replica with only stragglers, the very one to repack, never looks as if its use went down.

Where a replica gets weights from does not matter here: the driver answers ``Publish`` with ``Published``
once they have come, through :mod:`agentic_gym.trainers.schedules.relay_chain` where there are relays.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentic_gym.errors import ConfigError
from agentic_gym.trainers.schedules import base
from agentic_gym.trainers.schedules.fleet import Fleet
from agentic_gym.trainers.schedules.groups import GroupBook, State, check_batch
from agentic_gym.trainers.schedules.repack import ReplicaUse, plan_repack
from agentic_gym.trainers.schedules.window import Window

_UNBOUNDED = 10**9
"""Updates that no run makes: a window of this size bounds nothing."""


@dataclass(slots=True)
class _Cache:
    """The KV cache of a replica that lives.

    Attributes:
        used: tokens in it at the last tick; None: something was placed there since.
        capacity: tokens that fit.
        peak: the most that were seen there since the replica serves its version.
    """

    used: int | None = None
    capacity: int = 0
    peak: int = 0


class Relay:
    """Replicas that take new weights when they run nothing.

    Every launch names its replica. A batch is made of the complete groups with the oldest weights. So a
    complete group is only ever passed over for others with weights as old, or older, and launched before
    it: once complete, it is trained after at most ``buffer_size / batch_size`` more updates. How long it
    runs before, only ``max_staleness`` bounds: with it, every trajectory is trained by the update that
    starts from version v + ``max_staleness`` at the latest, v being the version that sampled it; the
    trainer waits where it must, and no more is launched than can be trained in time (AReaL's admission,
    arXiv 2505.24298; 0 is synchronous). What another schedule left too old for that is trained first.

    When a replica dies, what it ran is carried on from its prefix by another of the same version, as soon
    as one has room; where none serves that version, it starts again from nothing under the newest.

    Args:
        batch_size: trajectories of an update.
        group_size: trajectories of one task, launched together, on one replica.
        max_concurrent: trajectories that run at once. Each replica launches up to its equal share.
        roofline_batch: trajectories of a replica, up to which decoding is bound by memory, so that more
            cost no time. None gets more, also by repacking.
        repack_seconds: between two looks at what can be repacked; ``math.inf``: never repack.
        max_staleness: updates that a trained trajectory may be behind the trainer; None: no bound.
        buffer_size: trajectories that are launched and not yet trained, above which nothing is launched.
            None: ten batches.
        max_retries: how often a broken trajectory is tried again.
        max_lost_groups: groups lost in a row, with none completed between, before the run halts.

    Attributes:
        num_repacks: replicas that repacking has emptied.
        num_migrations: trajectories that repacking has moved.
        staleness_histogram: trajectories handed to the trainer, by the updates that they were behind it.

    Raises:
        ConfigError: a number is out of range, or leaves no room for one group.
    """

    def __init__(
        self,
        batch_size: int,
        group_size: int = 1,
        *,
        max_concurrent: int,
        roofline_batch: int,
        repack_seconds: float = 3.0,
        max_staleness: int | None = None,
        buffer_size: int | None = None,
        max_retries: int = 2,
        max_lost_groups: int = 8,
    ) -> None:
        self._wanted = check_batch(batch_size, group_size)
        buffer_size = 10 * batch_size if buffer_size is None else buffer_size
        _check_room(batch_size, group_size, max_concurrent, roofline_batch, buffer_size)
        if not repack_seconds > 0:
            raise ConfigError(
                f"repack_seconds={repack_seconds} must be positive; inf never repacks"
            )
        if max_staleness is not None and max_staleness < 0:
            raise ConfigError(f"max_staleness={max_staleness} must not be negative; None: no bound")
        self._book = GroupBook(group_size, max_retries=max_retries, max_lost_groups=max_lost_groups)
        self._max_staleness = _UNBOUNDED if max_staleness is None else max_staleness
        self._max_concurrent = max_concurrent
        self._roofline_batch = roofline_batch
        self._buffer_size = buffer_size
        self._repack_seconds = repack_seconds
        self._next_repack = repack_seconds
        self._version = 0
        self._fleet = Fleet(self._book)
        self._caches: dict[int, _Cache] = {}
        self._window = Window(self._max_staleness, self._wanted)
        # Interrupted trajectories, by the version that sampled their prefix. Some may have left since.
        self._pool: dict[int, deque[str]] = {}
        self.num_repacks = 0
        self.num_migrations = 0
        self.staleness_histogram: Counter[int] = Counter()

    @property
    def replica_versions(self) -> dict[int, int]:
        """Version that each living replica serves."""
        return dict(self._fleet.versions)

    def handle(self, event: base.Event) -> list[base.Action]:
        """See :class:`~agentic_gym.trainers.schedules.base.Schedule`."""
        match event:
            case base.Begun():
                return self._begin(event)
            case base.Finished(name):
                return self._finish(name)
            case base.Failed(name, reason, final):
                return self._refuse(name, reason) if final else self._fail(name, reason)
            case base.Trained(version):
                self._version = self._window.update = version
                actions = self._repack() if math.isfinite(self._repack_seconds) else []
                return actions + self._advance()
            case base.Published(version, number):
                if number in self._caches:
                    self._serve(number, version)
                return self._advance()
            case base.ReplicaUp(number, version):
                self._serve(number, version)
                return self._advance()
            case base.ReplicaDown(number):
                return self._lose(number)
            case base.Tick():
                return self._tick(event)

    def state_dict(self) -> dict[str, Any]:
        """See :class:`~agentic_gym.trainers.schedules.base.Schedule`."""
        return {
            "book": self._book.state_dict(),
            "num_repacks": self.num_repacks,
            "num_migrations": self.num_migrations,
            "staleness": [[late, count] for late, count in self.staleness_histogram.items()],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See :class:`~agentic_gym.trainers.schedules.base.Schedule`."""
        self._book.load_state_dict(state["book"])
        self.num_repacks = int(state["num_repacks"])
        self.num_migrations = int(state["num_migrations"])
        self.staleness_histogram = Counter(dict(state["staleness"]))

    # ---- events ----------------------------------------------------------------------------------

    def _begin(self, event: base.Begun) -> list[base.Action]:
        self._version = event.version
        actions = self._book.begin(event)
        self._fleet = Fleet(self._book, event.replicas)
        self._caches = {number: _Cache() for number in event.replicas}
        self._window = Window(self._max_staleness, self._wanted, event.version)
        for group in self._book.groups.values():
            self._window.enter(group.version)
            if group.complete:
                self._window.complete(group.version, group.number)
        self._pool = {}
        for known in sorted(event.parked, key=lambda known: base.parse_id(known.trajectory_id)):
            self._pool.setdefault(known.version, deque()).append(known.trajectory_id)
        return actions + self._advance()

    def _serve(self, number: int, version: int) -> None:
        self._fleet.up(number, version)
        self._caches[number] = _Cache()

    def _finish(self, name: str) -> list[base.Action]:
        if not self._book.finish(name):
            return []
        group = self._book.groups[base.parse_id(name)[0]]
        if group.complete:
            self._window.complete(group.version, group.number)
        return self._advance()

    def _fail(self, name: str, reason: str) -> list[base.Action]:
        member = self._book.find(name)
        # What is parked is started again in any case; if it is broken, it says so again.
        if member is None or member.state is not State.RUNNING:
            return []
        number = self._emptiest(1, self._roofline_batch)
        if number is None:
            number = member.replica  # where it leaves a place
        group = self._book.groups[base.parse_id(name)[0]]
        self._caches[number].used = None
        self._window.leave(group.version)
        version = self._fleet.versions[number]
        actions = self._book.fail(name, reason, version=version, replica=number)
        if group.members:
            self._window.enter(group.version)
        halted = any(isinstance(action, base.Halt) for action in actions)
        return actions if halted else actions + self._advance()

    def _refuse(self, name: str, reason: str) -> list[base.Action]:
        """Takes out a group that was refused. Its last member may be parked: its result was on the way."""
        if not self._book.unfinished(name):
            return []
        self._window.leave(self._book.groups[base.parse_id(name)[0]].version)
        return self._book.fail(name, reason, final=True) + self._advance()

    def _lose(self, number: int) -> list[base.Action]:
        if self._caches.pop(number, None) is None:
            return []
        version = self._fleet.versions[number]
        self._fleet.down(number)
        self._pool.setdefault(version, deque()).extend(self._book.replica_down(number))
        return self._advance()

    def _tick(self, event: base.Tick) -> list[base.Action]:
        for number, load in event.loads.items():
            if number in self._caches:
                cache = self._caches[number]
                cache.used, cache.capacity = load.kv_tokens, load.kv_capacity
                cache.peak = max(cache.peak, load.kv_tokens)
        if event.seconds < self._next_repack:
            return []
        self._next_repack = event.seconds + self._repack_seconds
        actions = self._repack()
        return actions + self._advance() if actions else []

    # ---- what to do now --------------------------------------------------------------------------

    def _advance(self) -> list[base.Action]:
        # What was interrupted comes before an empty replica loads: it may be the only one to carry it on.
        return [*self._emit(), *self._resume(), *self._pull(), *self._launch()]

    def _emit(self) -> list[base.Action]:
        """Hands over the complete groups with the oldest weights, in launch order."""
        if self._training or not self._window.may_emit():
            return []
        groups = [self._book.groups[number] for number in self._window.take()]
        self.staleness_histogram.update(
            self._version - member.version for group in groups for member in group.members.values()
        )
        return [base.Emit(self._book.take(groups))]

    @property
    def _training(self) -> bool:
        return self._window.update > self._version

    def _resume(self) -> list[base.Action]:
        """Carries on what was interrupted where its version is served; elsewhere it starts again."""
        actions: list[base.Action] = []
        for version, names in sorted(self._pool.items()):
            served = version in self._fleet.serving
            while names:
                member = self._book.find(names[0])
                if member is None or member.state is not State.PARKED:
                    names.popleft()  # its result came late, or its group was dropped
                    continue
                old = served and version < self._version
                number = self._fullest(version) if old else self._emptiest(1, self._roofline_batch)
                if number is None or self._book.counts[State.RUNNING] >= self._max_concurrent:
                    break
                actions.append(self._start(names.popleft(), number, afresh=not served))
            if not names:
                del self._pool[version]
        return actions

    def _start(self, name: str, number: int, *, afresh: bool) -> base.Action:
        self._caches[number].used = None
        if not afresh:
            return self._book.resume(name, replica=number)
        group = self._book.groups[base.parse_id(name)[0]]
        self._window.leave(group.version)
        retry = self._book.retry(name, version=self._fleet.versions[number], replica=number)
        self._window.enter(group.version)
        return retry

    def _pull(self) -> list[base.Action]:
        """Has replicas that run nothing load the newest weights."""
        fleet = self._fleet
        free = [r for v in fleet.serving if v < self._version for r in fleet.idle(v)]
        if len(free) > 1:
            chosen = set(free)
            free = [number for number in fleet.versions if number in chosen]
        fleet.load(free)
        return [base.Publish(tuple(free))] if free else []

    def _launch(self) -> list[base.Action]:
        """Fills the replicas that serve the newest weights."""
        size, book = self._book.group_size, self._book
        share = math.ceil(self._max_concurrent / max(1, len(self._caches)))
        limit = min(self._roofline_batch, max(share, size))
        actions: list[base.Action] = []
        while self._may_launch():
            number = self._emptiest(size, limit)
            if number is None:
                break
            actions.append(book.launch(self._version, replica=number))
            self._caches[number].used = None
            self._window.enter(self._version)
        return actions

    def _may_launch(self) -> bool:
        counts, size = self._book.counts, self._book.group_size
        places = (
            counts[State.RUNNING] + counts[State.PARKED]
        )  # what is parked will need its own again
        known = places + counts[State.FINISHED]
        if places + size > self._max_concurrent or known + size > self._buffer_size:
            return False
        return self._window.room(self._version) > 0

    def _repack(self) -> list[base.Action]:
        """Moves the last trajectories of replicas with old weights together."""
        # One with the newest weights has nothing to load: emptied, it would only be filled again.
        versions = self._fleet.versions
        uses = [
            ReplicaUse(n, versions[n], self._requests(n), c.used, c.peak, c.capacity)
            for n, c in self._caches.items()
            if versions[n] < self._version and c.used is not None
        ]
        actions: list[base.Action] = []
        for move in plan_repack(uses, self._roofline_batch):
            names = list(self._book.running_on[move.source])
            actions += [self._book.migrate(name, move.destination) for name in names]
            self._caches[move.destination].used = None
            self.num_repacks += 1
            self.num_migrations += len(names)
        return actions

    # ---- replicas --------------------------------------------------------------------------------

    def _requests(self, number: int) -> int:
        return len(self._book.running_on.get(number, ()))

    def _emptiest(self, size: int, limit: int) -> int | None:
        """The replica with the newest weights that runs least, of those where so many more fit."""
        ranked = self._fleet.serving.get(self._version)
        return ranked[0][1] if ranked and ranked[0][0] <= limit - size else None

    def _fullest(self, version: int) -> int | None:
        """The replica of this version that runs most, of those with room: the others end sooner."""
        ranked = self._fleet.serving.get(version, [])
        place = bisect_left(ranked, (self._roofline_batch, 0))
        return ranked[place - 1][1] if place else None


def _check_room(
    batch_size: int, group_size: int, max_concurrent: int, roofline_batch: int, buffer_size: int
) -> None:
    for name, value, least, why in (
        ("max_concurrent", max_concurrent, group_size, "a group is launched whole"),
        ("roofline_batch", roofline_batch, group_size, "a group is launched on one replica"),
        ("buffer_size", buffer_size, batch_size, "no batch gets full in less"),
    ):
        if value < least:
            raise ConfigError(f"{name}={value} must be at least {least}: {why}")
