"""The replicas of a simulated cluster: who carries which trajectory, and who serves which weights.

A trajectory that may go anywhere goes to the replica that carries the fewest, and stays there between its
turns; where all are full it waits for the first free place. One that the schedule placed waits for a place on
its own replica.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import simpy

from agentic_gym.errors import ScheduleContractError
from agentic_gym.trainers.schedules import base
from agentic_gym.trainers.simulation.cluster import Cluster, step_seconds
from agentic_gym.trainers.simulation.jobs import (
    BROKEN,
    CARRIED,
    FINISHED,
    PARKED,
    QUEUED,
    Job,
    Ledger,
)
from agentic_gym.trainers.simulation.replica import Replica


@dataclass(eq=False, slots=True)
class Push:
    """One :class:`~agentic_gym.trainers.schedules.base.Publish`, on its way to some replicas.

    Attributes:
        mode: what becomes of requests that run there.
        members: replicas that have not loaded yet.
        ready: those of them that may load.
        started: of a collective: all were ready, and load.
    """

    mode: str
    members: set[int] = field(default_factory=set)
    ready: set[int] = field(default_factory=set)
    started: bool = False


class Fleet:
    """All replicas.

    Args:
        env: simulated time.
        cluster: costs.
        ledger: states of the trajectories.
        tell: takes an event for the schedule.
        free: called when no collective keeps the trainer any more.

    Attributes:
        replicas: by number, dead ones too.
        version: the newest weights.
        available_at: when relays have them.
        trainer_busy: no collective can start.
        collectives: that are waiting or running, which the trainer takes part in.
    """

    def __init__(
        self,
        env: simpy.Environment,
        cluster: Cluster,
        ledger: Ledger,
        tell: Callable[[base.Event], None],
        free: Callable[[], None],
    ) -> None:
        steps = [step_seconds(cluster, batch) for batch in range(cluster.max_concurrent + 1)]
        self.replicas = {n: Replica(n, cluster, steps) for n in range(cluster.replicas)}
        self.version = 0
        self.available_at = 0.0
        self.trainer_busy = False
        self.collectives: dict[Push, None] = {}
        self._env = env
        self._cluster = cluster
        self._ledger = ledger
        self._tell = tell
        self._free = free
        self._queue: OrderedDict[Job, None] = OrderedDict()
        self._open = [(0, number) for number in self.replicas]  # heap of (carried, number)
        self._offered = set(self._open)  # what is in it: nothing twice, so it does not grow
        self._joined: dict[int, Push] = {}
        self._next: dict[int, Push] = {}  # for replicas that are loading now

    @property
    def loading(self) -> bool:
        """Whether any replica is about to load, or loads."""
        return bool(self._joined)

    # ---- trajectories ----------------------------------------------------------------------------

    def place(self, job: Job, number: int) -> None:
        """Starts a trajectory, or carries it on, on a replica or anywhere.

        Raises:
            ScheduleContractError: the replica is dead or there is none of that number.
        """
        self._ledger.move(job, QUEUED)
        job.placed = number != base.ANY
        if not job.placed:
            replica = self._least()
            if replica is None:
                self._queue[job] = None
            else:
                self._seat(job, replica)
            return
        replica = self.alive(number)
        job.replica = replica
        if len(replica.jobs) < self._cluster.max_concurrent:
            self._seat(job, replica)
        else:
            replica.backlog[job] = None

    def remove(self, job: Job) -> None:
        """Takes a trajectory off its replica, or out of the queue; its prefix is kept in the job."""
        job.timer = None
        replica = job.replica
        if replica is None:
            self._queue.pop(job, None)
            return
        job.replica = None
        replica.advance(self._env.now)
        replica.remove(job)
        seated = replica.jobs.pop(job, job) is None
        self._settle(replica)
        if seated:
            self._refill(replica)

    def alive(self, number: int) -> Replica:
        """A replica that is not dead.

        Raises:
            ScheduleContractError: there is none of that number.
        """
        replica = self.replicas.get(number)
        if replica is None or not replica.alive:
            raise ScheduleContractError(f"replica {number} is addressed, which is gone")
        return replica

    def living(self) -> list[Replica]:
        """Replicas that are not dead, by number."""
        return [replica for replica in self.replicas.values() if replica.alive]

    def loads(self) -> dict[int, base.ReplicaLoad]:
        """Of the living replicas."""
        now, capacity = self._env.now, self._cluster.kv_capacity
        loads = {}
        for number, replica in self.replicas.items():
            if replica.alive:
                replica.advance(now)
                loads[number] = base.ReplicaLoad(int(replica.kv_tokens), capacity)
        return loads

    def _least(self) -> Replica | None:
        """The replica that carries the fewest trajectories and has a place free."""
        heap = self._open
        while heap:
            count, number = heap[0]
            replica = self.replicas[number]
            if count == len(replica.jobs) and replica.alive and not replica.training:
                return replica if count < self._cluster.max_concurrent else None
            self._offered.discard(heapq.heappop(heap))
        return None

    def _offer(self, replica: Replica) -> None:
        offer = (len(replica.jobs), replica.number)
        if offer not in self._offered:
            self._offered.add(offer)
            heapq.heappush(self._open, offer)

    def _seat(self, job: Job, replica: Replica) -> None:
        job.replica = replica
        replica.jobs[job] = None
        self._offer(replica)
        self._ledger.move(job, CARRIED)
        if job.left > 0:
            self._request(job, replica)
        else:
            self._await(job, max(0.0, job.ready_at - self._env.now))

    def _refill(self, replica: Replica) -> None:
        """A place is free: for what was placed there, then for what may go anywhere."""
        if replica.alive and len(replica.jobs) < self._cluster.max_concurrent:
            if replica.backlog:
                self._seat(replica.backlog.popitem(last=False)[0], replica)
                return
            if self._queue and not replica.training:
                self._seat(self._queue.popitem(last=False)[0], replica)
                return
        self._offer(replica)

    # ---- turns -----------------------------------------------------------------------------------

    def _request(self, job: Job, replica: Replica) -> None:
        replica.advance(self._env.now)
        replica.waiting[job] = None
        self._settle(replica)

    def _settle(self, replica: Replica) -> None:
        """After any change: admits what may run, and sees to it that the next end is noticed."""
        if replica.waiting:
            for job in replica.admit():
                if job.started_at < 0:
                    job.started_at = self._env.now - job.parked_s
                if job.first_version < 0:
                    job.first_version = replica.version
        if replica.bars is not None:
            replica.mark()
        if replica.held and not replica.running and not replica.loading:
            self._is_ready(replica, self._joined[replica.number])
            return
        due = replica.due()
        if due < replica.wake_at:
            replica.wake_at = due
            wake = self._env.timeout(max(0.0, due - self._env.now), (replica, due))
            wake.callbacks.append(self._wake)

    def _wake(self, event: Any) -> None:
        replica, due = event.value
        if due != replica.wake_at:
            return  # something came sooner
        replica.wake_at = float("inf")
        replica.advance(self._env.now)
        done = replica.finish_due()
        replica.make_room()
        for job in done:
            job.last_version = replica.version
            latency = job.plan.latencies[job.turn]
            job.ready_at = self._env.now + latency
            if job.turn + 1 < len(job.plan.tokens):
                replica.keep(job)
            self._await(job, latency)
        self._settle(replica)

    def _await(self, job: Job, seconds: float) -> None:
        job.timer = self._env.timeout(seconds, job)
        job.timer.callbacks.append(self._answered)

    def _answered(self, event: Any) -> None:
        """The environment has answered, or graded."""
        job: Job = event.value
        replica = job.replica
        if job.timer is not event or replica is None:
            return  # taken away meanwhile
        job.timer = None
        if job.turn == job.breaks_at:
            self._end(job, BROKEN, base.Failed(job.name, "sandbox died"))
        elif job.turn + 1 == len(job.plan.tokens):
            seconds = self._env.now - job.started_at - job.parked_s
            self._end(job, FINISHED, base.Finished(job.name, seconds))
        else:
            job.context += job.plan.observations[job.turn]
            job.turn += 1
            job.left = float(job.plan.tokens[job.turn])
            self._request(job, replica)

    def _end(self, job: Job, state: str, event: base.Event) -> None:
        self._ledger.move(job, state)
        self.remove(job)
        self._tell(event)

    # ---- weights ---------------------------------------------------------------------------------

    def publish(self, numbers: Iterable[int], mode: str) -> None:
        """New weights for some replicas, which each answer once they serve them."""
        push = Push(mode)
        replicas = [self.alive(number) for number in numbers]
        push.members = {replica.number for replica in replicas}
        if self._cluster.transfer == "broadcast" and replicas:
            self.collectives[push] = None
        for replica in replicas:
            self._withdraw(self._next.pop(replica.number, None), replica)
            if replica.loading:
                self._next[replica.number] = push
            else:
                self._withdraw(self._joined.pop(replica.number, None), replica)
                self._join(replica, push)

    def start_collectives(self) -> None:
        """The trainer is free: collectives that waited for it may start."""
        for push in list(self.collectives):
            self._advance_push(push)

    def _join(self, replica: Replica, push: Push) -> None:
        self._joined[replica.number] = push
        replica.held = push.mode == "wait"
        if not (replica.held and replica.running):
            self._is_ready(replica, push)

    def _is_ready(self, replica: Replica, push: Push) -> None:
        if replica.number in push.ready:
            return
        push.ready.add(replica.number)
        if self._cluster.transfer == "broadcast":
            self._advance_push(push)
            return
        wait = self._env.timeout(max(0.0, self.available_at - self._env.now), (replica, push))
        wait.callbacks.append(lambda event: self._load(*event.value))

    def _advance_push(self, push: Push) -> None:
        """Starts a collective once everyone is ready."""
        waits = push.started or self.trainer_busy or not push.members
        if not waits and push.ready == push.members:
            push.started = True
            for number in sorted(push.members):
                self._load(self.replicas[number], push)

    def _load(self, replica: Replica, push: Push) -> None:
        if self._joined.get(replica.number) is not push or replica.loading:
            return
        replica.advance(self._env.now)
        replica.held = replica.loading = True
        replica.stall(self._cluster.transfer_seconds)
        self._settle(replica)
        loaded = self._env.timeout(self._cluster.transfer_seconds, (replica, push, self.version))
        loaded.callbacks.append(self._loaded)

    def _loaded(self, event: Any) -> None:
        push: Push
        replica, push, version = event.value
        if self._joined.get(replica.number) is not push:
            return  # it died meanwhile
        del self._joined[replica.number]
        replica.advance(self._env.now)
        replica.held = replica.loading = False
        replica.reload(version, keep_kv=push.mode == "keep_kv")
        self._withdraw(push, replica)
        following = self._next.pop(replica.number, None)
        if following is not None:
            self._join(replica, following)
        self._settle(replica)
        self._tell(base.Published(version, replica.number))

    def _withdraw(self, push: Push | None, replica: Replica) -> None:
        """A replica leaves a push: it has loaded, or died, or something newer replaces it."""
        if push is None:
            return
        push.members.discard(replica.number)
        push.ready.discard(replica.number)
        if push not in self.collectives:
            return
        if push.members:
            self._advance_push(push)
            return
        del self.collectives[push]
        if not self.collectives:
            self._free()

    # ---- life and death --------------------------------------------------------------------------

    def kill(self, replica: Replica) -> None:
        """A replica dies: what was placed there is parked, what was not goes elsewhere."""
        now = self._env.now
        replica.advance(now)
        lost = [*replica.jobs, *replica.backlog]
        for job in lost:
            job.timer = None
            job.replica = None
            replica.remove(job)
        replica.jobs.clear()
        replica.alive = replica.held = replica.loading = False
        self._withdraw(self._joined.pop(replica.number, None), replica)
        self._withdraw(self._next.pop(replica.number, None), replica)
        replica.mark()
        for job in lost:
            if job.placed:
                self._ledger.move(job, PARKED)
                job.parked_at = now
            else:
                self.place(job, base.ANY)
        self._tell(base.ReplicaDown(replica.number))

    def revive(self, replica: Replica) -> None:
        """A dead replica is back with the newest weights."""
        replica.advance(self._env.now)
        replica.alive, replica.training = True, False
        replica.reload(self.version, keep_kv=False)
        replica.mark()
        while self._queue and len(replica.jobs) < self._cluster.max_concurrent:
            self._seat(self._queue.popitem(last=False)[0], replica)
        self._offer(replica)
        self._tell(base.ReplicaUp(replica.number, self.version))

    def assign(self, replica: Replica, *, train: bool) -> None:
        """A replica's machine helps the trainer, or serves again."""
        replica.advance(self._env.now)
        replica.training = train
        replica.mark()
        while not train and self._queue and len(replica.jobs) < self._cluster.max_concurrent:
            self._seat(self._queue.popitem(last=False)[0], replica)
        self._offer(replica)
