"""The streaming schedule (DORA): several versions are served at once, each trajectory by one of them.

Source: DORA (arXiv 2604.26256), which keeps three constraints:

- C1: every token of a trajectory is sampled by the same weights.
- C2: nothing is abandoned; the long trajectories are trained too.
- C3: the trainer is at most ``window`` updates ahead of the weights of what it trains.

More is launched than a batch holds. When a batch of it is finished it is trained, and the rest goes on under
its own weights on fewer replicas, while the others load the newest. Interrupting at a publish would break
C1; dropping what is too old would break C2 and keep the short. So here the trainer waits instead, and
launching is bounded so that what must go always fits into a batch
(:class:`~agentic_gym.trainers.schedules.window.Window`).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from itertools import islice
from typing import Any

from agentic_gym.errors import ConfigError
from agentic_gym.trainers.schedules.base import (
    Action,
    Assign,
    Begun,
    Emit,
    Event,
    Failed,
    Finished,
    Halt,
    Publish,
    Published,
    ReplicaDown,
    ReplicaLoad,
    ReplicaUp,
    Tick,
    Trained,
    parse_id,
)
from agentic_gym.trainers.schedules.fleet import Fleet, share_out
from agentic_gym.trainers.schedules.groups import GroupBook, State, check_batch
from agentic_gym.trainers.schedules.window import Window

_FULL = 0.9
"""Share of a replica's KV cache above which some of its trajectories move to another."""

_SPARE = 1.2
"""Replicas that a version keeps for each that its KV tokens fill."""


class Streaming:
    """Batches from a stream of trajectories of several versions.

    - New groups go, whole, to the replica with the least to do of those that serve the newest version.
      While a replica loads newer weights they wait for it.
    - Replicas are shared out among the versions that run (:func:`~.fleet.share_out`): after each update,
      when a replica loads, comes, goes or runs out of work, and at every tick. One that is to load is
      emptied first, by moving what it runs to others of the same version, which is exact. Weights are
      never loaded under a running trajectory; where each version has a single replica, one must run dry.
      With one replica in all that happens once every ``window + 1`` updates at the latest, because by
      then nothing more can be launched.
    - When a replica dies, what it ran goes on elsewhere under the same version. Where no replica serves
      that any more, it starts again from nothing under newer weights, and so it does after a restart.
      Until there are such, it stays parked and nothing new is launched.

    Every trajectory is in a batch at most ``window`` updates after its launch, or dropped because it broke or
    is refused. Each time that one of its group must start again under newer weights adds at most ``window``.

    Args:
        batch_size: trajectories of an update.
        group_size: trajectories of one task, launched together.
        window: updates that a trained trajectory may be behind the trainer; at least 1. At most
            ``window + 1`` batches are launched and untrained.
        max_concurrent: trajectories that run at once; more than a batch.
        elastic: lends replicas without work to the trainer while it works and two finished batches wait,
            until less than one does or the trainer itself waits. At least one always generates. Needs a
            window of 2: with 1 no more than one batch ever waits.
        max_retries: how often a broken trajectory is tried again.
        max_lost_groups: groups lost in a row, with none completed between, before the run halts.

    Raises:
        ConfigError: a number is out of range.
    """

    def __init__(
        self,
        batch_size: int,
        group_size: int = 1,
        *,
        window: int,
        max_concurrent: int,
        elastic: bool = False,
        max_retries: int = 2,
        max_lost_groups: int = 8,
    ) -> None:
        self._wanted = check_batch(batch_size, group_size)
        _check(batch_size, window, max_concurrent, elastic)
        self._book = GroupBook(group_size, max_retries=max_retries, max_lost_groups=max_lost_groups)
        self._size = window
        self._max_concurrent = max_concurrent
        self._elastic = elastic
        self._version = 0
        self._window = Window(window, self._wanted)
        self._fleet = Fleet(self._book)
        self._homeless: dict[str, None] = {}  # parked ones, and some that have left since
        self._needed: dict[int, int] = {}  # replicas that each version fills, at the last tick

    @property
    def replica_versions(self) -> dict[int, int]:
        """Version that each living replica serves, or served until it began to load."""
        return dict(self._fleet.versions)

    def handle(self, event: Event) -> list[Action]:
        """See :class:`~agentic_gym.trainers.schedules.base.Schedule`."""
        match event:
            case Begun():
                return self._begin(event)
            case Finished(name):
                return self._finish(name)
            case Failed(name, reason, final):
                return self._fail(name, reason, final)
            case Trained(version):
                self._version = self._window.update = version
            case Published(version, replica):
                self._fleet.loaded(replica, version)
            case ReplicaUp(replica, version):
                self._fleet.up(replica, version)
            case ReplicaDown(replica):
                self._fleet.down(replica)
                self._homeless.update(dict.fromkeys(self._book.replica_down(replica)))
            case Tick(loads=loads):
                self._needed = self._filled(loads)
                return self._relieve(loads) + self._advance()
        return self._advance()

    def state_dict(self) -> dict[str, Any]:
        """See :class:`~agentic_gym.trainers.schedules.base.Schedule`.

        Roles are not saved: after a restart every replica generates.
        """
        return self._book.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See :class:`~agentic_gym.trainers.schedules.base.Schedule`."""
        self._book.load_state_dict(state)

    # ---- events ----------------------------------------------------------------------------------

    def _begin(self, event: Begun) -> list[Action]:
        book = self._book
        self._version = event.version
        actions = book.begin(event)
        self._fleet = Fleet(book, event.replicas)
        self._window = Window(self._size, self._wanted, event.version)
        for group in book.groups.values():
            self._window.enter(group.version)
            if group.complete:
                self._window.complete(group.version, group.number)
        self._homeless = dict.fromkeys(name for name, _ in book.members(State.PARKED))
        return actions + self._advance()

    def _finish(self, name: str) -> list[Action]:
        member = self._book.find(name)
        if member is None or not self._book.finish(name):
            return []
        group = self._book.groups[parse_id(name)[0]]
        if group.complete:
            self._window.complete(group.version, group.number)
        # Shares change with every trajectory: that is left to the next tick, but for a replica that is free.
        return self._advance(replan=not self._book.running_on.get(member.replica))

    def _fail(self, name: str, reason: str, final: bool) -> list[Action]:
        member = self._book.find(name)
        if member is None or member.state is State.FINISHED:
            return []
        if member.state is State.PARKED and not final:
            return []  # it will be started in any case; if it is broken, it says so again
        number = parse_id(name)[0]
        version = self._book.groups[number].version
        # Tried again under the same weights: the members of a group are compared with each other.
        actions = self._book.fail(name, reason, replica=member.replica, final=final)
        dropped = number not in self._book.groups
        if dropped:
            self._window.leave(version)
        halted = any(isinstance(action, Halt) for action in actions)
        return actions if halted else actions + self._advance(replan=dropped)

    # ---- what to do now --------------------------------------------------------------------------

    def _advance(self, *, replan: bool = True) -> list[Action]:
        """What follows. ``replan``: replicas may be given other work."""
        actions = self._place() if replan else []
        actions += self._emit()
        if replan:
            recalled = self._recall()
            actions += recalled + self._place() if recalled else []
            actions += self._share()
        actions += self._launch()
        if self._elastic:
            actions += self._lend()
        if replan:
            actions += self._fill()
        return actions

    @property
    def _training(self) -> bool:
        return self._window.update > self._version

    def _place(self) -> list[Action]:
        """Carries on what is parked; what no replica has the weights for starts again."""
        book, fleet = self._book, self._fleet
        newest = max(fleet.serving, default=-1)
        actions: list[Action] = []
        for name in list(self._homeless):
            member = book.find(name)
            if member is None or member.state is not State.PARKED:
                del self._homeless[name]  # its result came late, or its group was dropped
                continue
            version = member.version if member.version in fleet.serving else newest
            if version < member.version:
                continue  # older weights would bring its end closer; newer ones will be loaded
            del self._homeless[name]
            replica = fleet.emptiest(version)
            if version == member.version:
                actions.append(book.resume(name, replica=replica))
                continue
            group = book.groups[parse_id(name)[0]]
            self._window.leave(group.version)
            actions.append(book.retry(name, version=version, replica=replica))
            self._window.enter(group.version)
        return actions

    def _emit(self) -> list[Action]:
        if self._training or not self._window.may_emit():
            return []
        return [Emit(self._book.take([self._book.groups[n] for n in self._window.take()]))]

    def _share(self) -> list[Action]:
        """Frees replicas of older versions for the newest weights."""
        fleet, newest, counts = self._fleet, self._version, self._book.counts
        alone = len(fleet.versions) - len(fleet.lent) == 1
        if self._training and alone and not counts[State.PARKED]:
            # It would soon be busy again, with weights that are about to be replaced. Waiting halves the
            # staleness, and is faster unless an update takes as long as the trajectories of a batch.
            return []
        serving = fleet.serving
        coming = self._num_launches(newest) * self._book.group_size + counts[State.PARKED]
        work = {**fleet.work, newest: fleet.work.get(newest, 0) + coming}
        held = {version: len(replicas) for version, replicas in serving.items()}
        held[newest] = held.get(newest, 0) + len(fleet.loading)
        shares = share_out(work, held, newest, self._needed)
        surplus = {v: held[v] - shares[v] for v in serving if v < newest and held[v] > shares[v]}
        if not surplus:
            return []
        actions: list[Action] = []
        freed: list[int] = []
        for version in fleet.by_number():
            emptied = [replica for _, replica in serving[version][: surplus.get(version, 0)]]
            names = [n for r in emptied for n in self._book.running_on.get(r, ())]
            fleet.load(emptied)
            actions += [self._book.migrate(name, fleet.emptiest(version)) for name in names]
            freed += emptied
        return [*actions, Publish(tuple(sorted(freed)))]

    def _num_launches(self, version: int) -> int:
        """Groups that may be launched under this version."""
        counts = self._book.counts
        idle = self._max_concurrent - counts[State.RUNNING] - counts[State.PARKED]
        return max(0, min(self._window.room(version), idle // self._book.group_size))

    def _launch(self) -> list[Action]:
        serving = self._fleet.serving
        # What is parked comes first: it waits for weights that only an empty replica can load.
        if not serving or self._book.counts[State.PARKED]:
            return []
        version = max(serving)
        newer_is_coming = version < self._version and self._fleet.loading
        number = 0 if newer_is_coming else self._num_launches(version)
        if not number:
            return []
        actions: list[Action] = []
        for _ in range(number):
            self._window.enter(version)
            actions.append(self._book.launch(version, replica=self._fleet.emptiest(version)))
        return actions

    # ---- loads of replicas -----------------------------------------------------------------------

    def _move(self, number: int, source: int, target: int) -> list[Action]:
        """Moves those that came last: they have the least in the KV cache."""
        names = list(islice(reversed(self._book.running_on[source]), number))
        return [self._book.migrate(name, target) for name in names]

    def _fill(self) -> list[Action]:
        """Gives a replica with the newest weights and no work half of what the fullest runs."""
        actions: list[Action] = []
        while ranked := self._fleet.serving.get(self._version):
            (least, idle), (most, _) = ranked[0], ranked[-1]
            if least or most < 2:
                break
            fullest = ranked[bisect_left(ranked, (most, 0))][1]  # the first of several
            actions += self._move(most // 2, fullest, idle)
        return actions

    def _filled(self, loads: Mapping[int, ReplicaLoad]) -> dict[int, int]:
        """Replicas whose KV caches each version fills, with some to spare: what runs is still growing."""
        used: dict[int, float] = {}
        for replica, load in loads.items():
            if (version := self._fleet.versions.get(replica)) is not None:
                used[version] = used.get(version, 0.0) + load.kv_tokens / load.kv_capacity
        return {version: math.ceil(_SPARE * share) for version, share in used.items()}

    def _relieve(self, loads: Mapping[int, ReplicaLoad]) -> list[Action]:
        """Moves trajectories from replicas whose KV cache is full to the emptiest of the same version."""
        actions: list[Action] = []
        for replicas in self._fleet.by_number().values():
            used = {r: loads[r].kv_tokens / loads[r].kv_capacity for r in replicas if r in loads}
            running = {r: len(self._book.running_on.get(r, ())) for r in used}
            full = [r for r in used if used[r] > _FULL and running[r]]
            for source in sorted(full, key=lambda r: -used[r]):
                target = min(used, key=lambda r: used[r])
                # So many that both become equally full, if each that runs is of the mean size.
                each = loads[source].kv_tokens / running[source]
                gives, takes = each / loads[source].kv_capacity, each / loads[target].kv_capacity
                number = int((used[source] - used[target]) / (gives + takes))
                actions += self._move(number, source, target)
                used[target] += number * takes
        return actions

    # ---- roles -----------------------------------------------------------------------------------

    def _is_ahead(self, batches: int) -> bool:
        """The trainer works, so many more batches are finished, and nothing waits for a replica."""
        ready = len(self._book.complete) >= batches * self._wanted
        return self._training and ready and not self._book.counts[State.PARKED]

    def _lend(self) -> list[Action]:
        """Lends the trainer replicas without work while generation is ahead."""
        serving = self._fleet.serving
        if not serving or not self._is_ahead(2):
            return []
        idle = {replica for version in serving for replica in self._fleet.idle(version)}
        newest = max(serving)
        if not self._fleet.work[newest]:
            idle.remove(self._fleet.emptiest(newest))  # takes what is launched next
        if not idle:
            return []
        order = [r for replicas in self._fleet.by_number().values() for r in replicas if r in idle]
        self._fleet.lend(order)
        return [Assign(replica, "train") for replica in order]

    def _recall(self) -> list[Action]:
        """Takes lent replicas back when generation is ahead no more, or no other is left."""
        fleet = self._fleet
        if not fleet.lent or (self._is_ahead(1) and len(fleet.lent) < len(fleet.versions)):
            return []
        return [Assign(replica, "generate") for replica in fleet.recall()]


def _check(batch_size: int, window: int, max_concurrent: int, elastic: bool) -> None:
    if window < 1:
        raise ConfigError(
            f"window={window} must be at least 1: with 0 nothing may run while the trainer works; "
            "use the sync schedule for that"
        )
    if max_concurrent <= batch_size:
        raise ConfigError(
            f"max_concurrent={max_concurrent} must be more than batch_size={batch_size}: "
            "what is launched beyond a batch runs on while it is trained"
        )
    if elastic and window < 2:
        raise ConfigError(
            "elastic=True needs window=2 or more: with window=1 no more than one batch ever waits for the "
            "trainer, so no replica would be lent"
        )
