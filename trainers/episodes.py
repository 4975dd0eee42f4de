"""Plays the episodes that a schedule wants: queued until a slot is free, parked, carried on, dropped.

A parked episode gives its slot away and keeps its environment and its place in the conversation. What it
was sampling is interrupted by the :class:`~agentic_gym.engines.replicas.ReplicaSet`; a running step of the
environment is not, and the episode waits at its next turn. All methods belong to one event loop.
"""

from __future__ import annotations

import asyncio
import enum
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from agentic_gym.engines.replicas import ReplicaSet
from agentic_gym.episode import EpisodeWatch, Launch
from agentic_gym.rollout import Rollout
from agentic_gym.trainers.schedules.base import ANY
from agentic_gym.types import Trajectory

Clock = Callable[[], float]


class Status(enum.Enum):
    """Of an episode that is not over."""

    QUEUED = "queued"
    ACTIVE = "active"
    PARKED = "parked"


@dataclass(eq=False, slots=True)
class Entry(EpisodeWatch):
    """One episode, from its launch to its end.

    Attributes:
        launch: what is played.
        clock: seconds.
        turns: told of what there is after each turn.
        replica: that serves it.
        before: prefix that it starts from.
        rank: of those that are queued, the lowest comes first.
        status: what it does.
        task: that plays it, once it has been begun.
        waits_for: what it does within its status ("generate", "step" …).
        since: when that began.
        queued_s: seconds in the queue so far.
    """

    launch: Launch
    clock: Clock
    turns: Callable[[Trajectory], None]
    replica: int = ANY
    before: Trajectory | None = None
    rank: float = 0.0
    status: Status = Status.QUEUED
    task: asyncio.Task[None] | None = None
    waits_for: str = "slot"
    since: float = 0.0
    queued_s: float = 0.0
    _queued_at: float = 0.0
    _paused_s: float = 0.0
    _paused_at: float | None = None

    @property
    def name(self) -> str:
        """Of the trajectory."""
        return self.launch.trajectory_id

    # ---- what the episode asks (EpisodeWatch) ----------------------------------------------------

    def prefix(self) -> Trajectory | None:
        """See :class:`~agentic_gym.episode.EpisodeWatch`."""
        return self.before

    def paused_s(self) -> float:
        """See :class:`~agentic_gym.episode.EpisodeWatch`."""
        now = 0.0 if self._paused_at is None else self.clock() - self._paused_at
        return self._paused_s + now

    def phase(self, name: str) -> None:
        """See :class:`~agentic_gym.episode.EpisodeWatch`."""
        self.waits_for, self.since = name, self.clock()

    def turn(self, so_far: Callable[[], Trajectory]) -> None:
        """See :class:`~agentic_gym.episode.EpisodeWatch`."""
        self.turns(so_far())

    # ---- what is done to it ----------------------------------------------------------------------

    def queue(self) -> None:
        """It waits for a slot."""
        self.status, self._queued_at = Status.QUEUED, self.clock()

    def activate(self) -> None:
        """It has a slot."""
        now = self.clock()
        self.queued_s += now - self._queued_at
        if self._paused_at is not None:
            self._paused_s += now - self._paused_at
            self._paused_at = None
        self.status = Status.ACTIVE

    def park(self) -> None:
        """It is interrupted."""
        if self.task is not None and self._paused_at is None:
            self._paused_at = self.clock()
        self.status = Status.PARKED


@dataclass(slots=True)
class EpisodeTimes:
    """What became of an episode's time, in seconds.

    Attributes:
        queued: waiting for a slot.
        paused: waiting, after it had begun, to be carried on.
    """

    queued: float
    paused: float


OnEnd = Callable[[Trajectory, EpisodeTimes], None]


@dataclass(slots=True)
class Episodes:
    """The episodes of a run that are not over.

    Args:
        rollout: plays them.
        slots: episodes that are active at once.
        replicas: that serve their agents; None where agents have no engine: such an episode, when parked,
            gives its slot away and goes on all the same.
        on_end: told of each that is over, broken ones included; not of those that are dropped.
        on_turn: told what there is of an episode after each turn but the last.
        on_error: told of an error that every episode would meet.
        clock: seconds.
        score: adds rewards to a finished episode, in a thread; None for nothing.
    """

    rollout: Rollout
    slots: int
    replicas: ReplicaSet | None
    on_end: OnEnd
    on_turn: Callable[[Trajectory], None]
    on_error: Callable[[BaseException], None]
    clock: Clock = time.perf_counter
    score: Callable[[Trajectory], Trajectory] | None = None
    _entries: dict[str, Entry] = field(default_factory=dict)
    _ending: dict[str, set[asyncio.Task[None]]] = field(default_factory=dict)
    _num_active: int = 0

    # ---- what a schedule wants -------------------------------------------------------------------

    def start(
        self,
        launch: Launch,
        *,
        replica: int = ANY,
        prefix: Trajectory | None = None,
        rank: float = 0.0,
    ) -> None:
        """Queues an episode; one of the same name that is not over is dropped first."""
        self.drop(launch.trajectory_id)
        entry = Entry(launch, self.clock, self.on_turn, replica, prefix, rank)
        self._entries[entry.name] = entry
        entry.queue()
        self._fill()

    def park(self, name: str) -> None:
        """Interrupts an episode; nothing if it is over."""
        entry = self._entries.get(name)
        if entry is None or entry.status is Status.PARKED:
            return
        if entry.status is Status.ACTIVE:
            self._num_active -= 1
            if self.replicas is not None:
                self.replicas.park(name)
        entry.park()
        self._fill()

    def resume(self, name: str, *, replica: int = ANY) -> bool:
        """Queues a parked episode to be carried on. False: there is none of that name here."""
        entry = self._entries.get(name)
        if entry is None:
            return False
        self.park(name)
        entry.replica = replica
        entry.queue()
        self._fill()
        return True

    def migrate(self, name: str, replica: int) -> None:
        """Moves an episode to another replica; an active one keeps its slot."""
        entry = self._entries.get(name)
        if entry is None:
            return
        entry.replica = replica
        if entry.status is Status.ACTIVE and self.replicas is not None:
            self.replicas.migrate(name, replica)

    def drop(self, name: str) -> None:
        """Ends an episode without a result; nothing if it is over."""
        entry = self._entries.pop(name, None)
        if entry is None:
            return
        self._num_active -= entry.status is Status.ACTIVE
        if entry.task is not None and not entry.task.done():
            self._ending.setdefault(name, set()).add(entry.task)
            entry.task.add_done_callback(lambda task: self._ended(name, task))
            entry.task.cancel()
        self._fill()

    async def close(self) -> None:
        """Ends all of them."""
        for name in list(self._entries):
            self.drop(name)
        ending = [task for tasks in self._ending.values() for task in tasks]
        await asyncio.gather(*ending, return_exceptions=True)

    # ---- what is known ---------------------------------------------------------------------------

    @property
    def num_active(self) -> int:
        """Episodes that have a slot."""
        return self._num_active

    @property
    def num_generating(self) -> int:
        """Active episodes that wait for the engine."""
        return sum(
            1
            for entry in self._entries.values()
            if entry.status is Status.ACTIVE and entry.waits_for == "generate"
        )

    def entries(self) -> list[Entry]:
        """All that are not over, in the order of their launch."""
        return list(self._entries.values())

    # ---- playing ---------------------------------------------------------------------------------

    def _fill(self) -> None:
        """Gives free slots to those that wait."""
        if self._num_active >= self.slots:
            return
        waiting = [e for e in self._entries.values() if e.status is Status.QUEUED]
        waiting.sort(key=lambda entry: entry.rank)  # stable: of equal ones the first launched
        for entry in waiting[: self.slots - self._num_active]:
            self._num_active += 1
            entry.activate()
            if entry.task is None:
                entry.phase("reset")
                entry.task = asyncio.get_running_loop().create_task(self._play(entry))
            elif self.replicas is not None:
                self.replicas.resume(entry.name, entry.replica)

    async def _play(self, entry: Entry) -> None:
        name = entry.name
        if before := self._ending.get(name):  # attempts that have not let go of their requests yet
            await asyncio.wait(set(before))
        if self.replicas is not None:
            self.replicas.place(name, entry.replica)
        try:
            trajectory = await self.rollout.play(entry.launch, entry)
            if self.score is not None:
                trajectory = await asyncio.to_thread(self.score, trajectory)
        except Exception as error:  # of the caller's making: every episode would meet it
            self.on_error(error)
            return
        if self._entries.get(name) is not entry:
            return  # dropped meanwhile
        del self._entries[name]
        self._num_active -= entry.status is Status.ACTIVE
        self.on_end(trajectory, EpisodeTimes(entry.queued_s, entry.paused_s()))
        self._fill()

    def _ended(self, name: str, task: asyncio.Task[None]) -> None:
        tasks = self._ending[name]
        tasks.discard(task)
        if not tasks:
            del self._ending[name]
