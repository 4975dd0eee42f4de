"""Tail batching: rounds of quick groups, and now and then a round of the slow ones that they left.

After RollPacker (NSDI '26). A *short round* launches more groups than the batch needs and ends when enough
are finished; the others are interrupted and queue up. A *long round* takes its batch from the queue and waits
for all of it. So the engine waits for the longest episode once in a few updates, not in each. Between rounds
every replica loads the newest weights, as in :class:`~agentic_gym.trainers.schedules.sync.Sync`.

Popular accounts take the first results and then ask *those* for their unfinished prompts. The unfinished are
among all that were launched, and a group that finishes beyond the batch is kept for the next one, not lost.

What the trained lengths are a sample of:

- ``carry="resume"``, the default: an interrupted trajectory goes on from its prefix, under the newer weights
  (each token keeps its version). Every group that is not refused is trained exactly once, so over the run
  the lengths are those of plain sampling. Within one update they are not: short rounds train quick groups.
- ``carry="restart"``, the paper's: the first attempt is dropped and its task is played anew. With the share q
  of long episodes, a long one is trained only if it is long twice: q² of what is trained, not q.
- ``response_redundancy`` above 1: the first ``group_size`` to finish are kept, the others dropped. Of ten
  lognormal lengths (σ = 1) the eight shortest have a mean of 0.98 where all have 1.65.

No group starves. Let P be the groups of a batch, N the most that a short round launches, W
``max_wait_rounds``. A round that launches begins with fewer than P on the queue and b < P buffered, launches
at most N−b and trains P: at most N−1 are in hand after it. A round that launches nothing trains P of those in
hand. So k = ⌊(N−1)/P⌋ rounds after a group came on the queue, fewer than P are left that are as old, and the
next long round, which takes the P oldest in hand, takes it; that comes at the latest when it has waited W
rounds. Hence a trajectory ends at most 1 + max(W, k) updates later than the first that could have trained it
(:attr:`TailBatching.max_wait`). Restarts, lost groups and refused ones do not lengthen that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Literal, get_args

from agentic_gym.errors import ConfigError
from agentic_gym.trainers.schedules.base import (
    Action,
    Begun,
    Emit,
    Event,
    Failed,
    Finished,
    Halt,
    Launch,
    Publish,
    Published,
    ReplicaDown,
    ReplicaUp,
    Tick,
    Trained,
    parse_id,
)
from agentic_gym.trainers.schedules.groups import Group, GroupBook, State, check_batch
from agentic_gym.trainers.schedules.redundancy import Redundancy, TailRate, make_rule, multiple
from agentic_gym.trainers.schedules.staging import Stager

Carry = Literal["resume", "restart"]
"""What becomes of an interrupted group: it goes on from its prefixes, or its task is played anew."""

_CYCLE = 8
"""Batches that the tail rate is measured over: quick groups finish first, so fewer would make it swing."""


class TailBatching:
    """Short rounds and long rounds.

    Args:
        batch_size: trajectories of an update.
        group_size: trajectories of one task in a batch.
        carry: "resume" (unbiased) or "restart" (biased towards short episodes; see the module).
        prompt_redundancy: how many groups a short round launches: "quantile", "expected", a factor, or a
            rule of :mod:`agentic_gym.trainers.schedules.redundancy`.
        response_redundancy: a short round launches so many times ``group_size`` trajectories of a task and
            keeps those that finish first: biased towards short episodes above 1.
        reserve: share of a batch's groups, the oldest on the queue, that go on beside short rounds.
        max_wait_rounds: rounds after which the oldest group on the queue brings about a long round.
        max_retries: how often a broken trajectory is tried again.
        max_lost_groups: groups lost in a row, with none completed between, before the run halts.
        stage: say which groups are certain to be in the batch, for a trainer that begins before it is whole.

    Attributes:
        max_wait: updates that a trajectory ends later than the first that could have trained it, at most.
        num_short_rounds: that have ended.
        num_long_rounds: that have ended.

    Raises:
        ConfigError: a value is out of range.
    """

    def __init__(
        self,
        batch_size: int,
        group_size: int = 1,
        *,
        carry: Carry = "resume",
        prompt_redundancy: Redundancy | float | str = "quantile",
        response_redundancy: float = 1.0,
        reserve: float = 0.0,
        max_wait_rounds: int = 4,
        max_retries: int = 2,
        max_lost_groups: int = 8,
        stage: bool = False,
    ) -> None:
        if carry not in get_args(Carry):
            raise ConfigError(f'carry={carry!r} is not known: "resume" or "restart"')
        if not 1 <= response_redundancy < math.inf:
            raise ConfigError(f"response_redundancy={response_redundancy} must be 1 or more")
        if not 0 <= reserve <= 1:
            raise ConfigError(f"reserve={reserve} is a share of the batch: from 0 to 1")
        if max_wait_rounds < 0:
            raise ConfigError(f"max_wait_rounds={max_wait_rounds} must not be negative")
        self._wanted = check_batch(batch_size, group_size)
        self._book = GroupBook(group_size, max_retries=max_retries, max_lost_groups=max_lost_groups)
        self._carry = carry
        self._rule = make_rule(prompt_redundancy)
        self._launch_size = multiple(response_redundancy, group_size)
        self._num_reserved = multiple(reserve, self._wanted)
        self._max_wait_rounds = max_wait_rounds
        most = self._rule.launches(self._wanted, 1.0)
        self.max_wait = 1 + max(max_wait_rounds, (most - 1) // self._wanted)
        self.num_short_rounds = self.num_long_rounds = 0
        span = max(512, _CYCLE * self._wanted)
        self._rate = TailRate(window=span, memory=span)
        self._launched: dict[int, int] = {}  # version at which each group was
        self._seconds: dict[int, float] = {}  # of the slowest member that has finished
        self._stager = Stager(stage)
        self._version = 0
        self._replicas: set[int] = set()
        self._stale: set[int] = set()  # replicas that have not loaded the newest weights yet
        self._open = self._training = False  # a round is going on; its batch is with the trainer
        self._batch: dict[int, None] | None = None  # a long round's groups; None: a short round
        self._missing = 0  # groups that the round has yet to launch or take
        # Every group that is not complete is in one of these, in launch order.
        self._round: dict[int, None] = {}
        self._queue: dict[int, None] = {}
        self._reserved: dict[int, None] = {}  # of the long queue, but running

    @property
    def long_queue(self) -> int:
        """Groups that a short round has left unfinished and no long round has taken."""
        return len(self._queue) + len(self._reserved)

    @property
    def tail_rate(self) -> float:
        """Share of groups that take long (:class:`TailRate` of their slowest members)."""
        return self._rate.rate

    def handle(self, event: Event) -> list[Action]:
        """See :class:`~agentic_gym.trainers.schedules.base.Schedule`."""
        match event:
            case Begun():
                return self._begin(event) + self._advance()
            case Finished(name, seconds) if self._book.finish(name):
                return self._finished(parse_id(name)[0], seconds) + self._advance()
            case Failed():
                return self._failed(event)
            case Trained(version):
                self._version, self._stale = version, set(self._replicas)
                self._training = False
                return [self._publish(None)]
            case Published(version, replica):
                if version == self._version:
                    self._stale.discard(replica)
                return self._advance()
            case ReplicaUp(replica, version):
                self._replicas.add(replica)
                if version == self._version:
                    return self._advance()
                self._stale.add(replica)
                return [self._publish((replica,))]
            case ReplicaDown(replica):
                self._replicas.discard(replica)
                self._stale.discard(replica)
                return self._advance()
            case Finished() | Tick():
                return []

    def state_dict(self) -> dict[str, Any]:
        """See :class:`~agentic_gym.trainers.schedules.base.Schedule`."""
        return {
            "book": self._book.state_dict(),
            "rate": self._rate.state_dict(),
            "launched": {str(number): version for number, version in self._launched.items()},
            "seconds": {str(number): seconds for number, seconds in self._seconds.items()},
            "long_round": None if self._batch is None else list(self._batch),
            "rounds": [self.num_short_rounds, self.num_long_rounds],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See :class:`~agentic_gym.trainers.schedules.base.Schedule`."""
        self._book.load_state_dict(state["book"])
        self._rate.load_state_dict(state["rate"])
        self._launched = {int(n): int(version) for n, version in state["launched"].items()}
        self._seconds = {int(n): float(seconds) for n, seconds in state["seconds"].items()}
        batch = state["long_round"]
        self._batch = None if batch is None else dict.fromkeys(batch)
        self.num_short_rounds, self.num_long_rounds = state["rounds"]

    # ---- what happens ----------------------------------------------------------------------------

    def _begin(self, event: Begun) -> list[Action]:
        """Sorts what the ledger knows into the round that was going on and the long queue."""
        book = self._book
        actions = book.begin(event)
        for group in list(book.groups.values()):
            if group.num_finished >= book.group_size:
                actions += self._cut(group)
        self._version, self._replicas = event.version, set(event.replicas)
        # What the saved state does not know was launched when its oldest weights say.
        groups, known = book.groups, self._launched
        self._launched = {n: known.get(n, group.version) for n, group in groups.items()}
        self._seconds = {n: s for n, s in self._seconds.items() if n in groups}
        self._batch = {n: None for n in self._batch or () if n in groups} or None
        self._open = self._training = False
        self._round, self._queue, self._reserved = {}, {}, {}
        for number, launched in self._launched.items():
            mine = launched == event.version if self._batch is None else number in self._batch
            if number not in book.complete:
                (self._round if mine else self._queue)[number] = None
        stale = tuple(r for r, version in event.replicas.items() if version != event.version)
        self._stale = set(stale)
        return [*actions, self._publish(stale)] if stale else actions

    def _finished(self, number: int, seconds: float) -> list[Action]:
        group = self._book.groups[number]
        self._seconds[number] = max(seconds, self._seconds.get(number, 0.0))
        if group.num_finished < self._book.group_size:
            return []
        self._rate.observe(self._seconds[number])
        self._unlist(number)
        return self._cut(group)

    def _failed(self, event: Failed) -> list[Action]:
        name, number = event.trajectory_id, parse_id(event.trajectory_id)[0]
        member = self._book.find(name)
        parked = member is not None and member.state is State.PARKED
        if event.final and self._book.unfinished(name):
            # It was played like the others: without it, the rate would be that of the groups kept.
            self._rate.observe(max(event.seconds, self._seconds.get(number, 0.0)))
        actions = self._book.fail(name, event.reason, final=event.final)
        if any(isinstance(action, Halt) for action in actions):
            return actions
        if number not in self._book.groups:
            self._missing += number in self._round
            (self._batch or {}).pop(number, None)
            self._forget(number)
        elif parked:
            # It broke as it was interrupted: its new attempt waits until its group's turn.
            actions.append(self._book.park(name))
        return actions + self._advance()

    def _advance(self) -> list[Action]:
        """Begins a round if none is going on, keeps it filled, and ends it when its batch is there."""
        actions: list[Action] = []
        if self._training or (self._stale and not self._open):
            return actions
        if not self._open:
            actions += self._start_round()
        if not self._stale:
            actions += self._fill()
        if self._ready:
            return actions + self._end_round()
        # What has finished cannot break. A short round ends once enough are complete: it takes each of them.
        return actions + self._stager.stage(self._book.complete, self._batch)

    # ---- a round ---------------------------------------------------------------------------------

    @property
    def _ready(self) -> bool:
        """The batch of the round is there."""
        if self._batch is None:
            return len(self._book.complete) >= self._wanted
        return not self._round and not self._missing

    def _start_round(self) -> list[Action]:
        self._open, self._missing = True, 0
        waiting = [next(iter(part)) for part in (self._queue, self._reserved) if part]
        overdue = waiting and self._version - self._launched[min(waiting)] > self._max_wait_rounds
        if self._batch is not None or overdue or self.long_queue >= self._wanted:
            return self._start_long()
        needed = self._wanted - len(self._book.complete)
        if needed <= 0:
            self._queue.update(self._round)
            self._round.clear()
            return []
        # After a restart, some of the round are launched already.
        self._missing = max(0, self._rule.launches(needed, self._rate.rate) - len(self._round))
        return self._resume(self._round)

    def _start_long(self) -> list[Action]:
        """Takes the oldest groups in hand, complete or not; after a restart, what the round had."""
        taken = list(self._batch or islice(self._book.groups, self._wanted))
        self._batch = {}
        killed, self._round = self._round, {}  # after a restart: of the round, parked by the kill
        actions: list[Action] = []
        for number in taken:
            actions += self._take(number)
            killed.pop(number, None)
        self._queue.update(killed)
        self._missing = self._wanted - len(self._batch)
        return actions

    def _take(self, number: int) -> list[Action]:
        """Makes a group part of the long round."""
        assert self._batch is not None
        book = self._book
        if number in self._queue and self._carry == "restart":
            # First the new one: a kill in between plays the task twice, rather than never.
            new = self._launch(book.group_size, task_of=number)
            self._batch[new.group] = None
            reason = f"interrupted; its task is played anew by group {new.group} in a long round"
            self._forget(number)
            return [new, *book.drop(number, reason)]
        self._batch[number] = None
        if number in book.complete:
            return []
        self._unlist(number)
        self._round[number] = None
        return self._cut(book.groups[number]) + self._resume([number])

    def _fill(self) -> list[Action]:
        """Launches what the round still lacks, and resumes what may go on beside it."""
        actions: list[Action] = []
        while self._missing:
            self._missing -= 1
            if self._batch is None:
                actions.append(self._launch(self._launch_size))
            elif self._queue:
                actions += self._take(next(iter(self._queue)))
            else:
                new = self._launch(self._book.group_size)
                self._batch[new.group] = None
                actions.append(new)
        if self._batch is None and self._carry == "resume":
            free = self._num_reserved - len(self._reserved)
            for number in list(islice(self._queue, max(0, free))):
                self._unlist(number)
                self._reserved[number] = None
                actions += self._resume([number])
        return actions

    def _end_round(self) -> list[Action]:
        """Emits the batch, and puts what a short round leaves unfinished on the long queue."""
        book, is_long = self._book, self._batch is not None
        self.num_long_rounds += is_long
        self.num_short_rounds += not is_long
        # In launch order, whatever order they finished in: the same batch after a restart.
        batch = sorted(book.complete if self._batch is None else self._batch)[: self._wanted]
        actions: list[Action] = [Emit(book.take([book.groups[number] for number in batch]))]
        for number in batch:
            self._forget(number)
        for number in self._round:
            group = book.groups[number]
            actions += self._cut(group)
            if len(self._reserved) < self._num_reserved:
                self._reserved[number] = None
                continue
            actions += [book.park(name) for name in group.names(State.RUNNING)]
            self._queue[number] = None
        self._round.clear()
        self._open, self._batch, self._training = False, None, True
        return actions

    # ---- groups ----------------------------------------------------------------------------------

    def _launch(self, size: int, task_of: int | None = None) -> Launch:
        new = self._book.launch(self._version, size=size, task_of=task_of)
        self._round[new.group] = None
        self._launched[new.group] = self._version
        return new

    def _resume(self, numbers: Iterable[int]) -> list[Action]:
        groups = [self._book.groups[number] for number in numbers]
        return [self._book.resume(name) for group in groups for name in group.names(State.PARKED)]

    def _cut(self, group: Group) -> list[Action]:
        """Drops what a group has beyond its size: those that finished stay, then those launched first."""
        size = self._book.group_size
        if len(group.members) == size:
            return []
        members = group.members
        names = sorted(members, key=lambda name: members[name].state is not State.FINISHED)
        reason = f"{size} of its group are enough"
        return [self._book.drop_member(name, reason) for name in names[size:]]

    def _unlist(self, number: int) -> None:
        for part in (self._round, self._queue, self._reserved):
            part.pop(number, None)

    def _forget(self, number: int) -> None:
        self._unlist(number)
        self._launched.pop(number, None)
        self._seconds.pop(number, None)

    def _publish(self, replicas: tuple[int, ...] | None) -> Action:
        # What goes on beside the rounds takes the new weights up; without it, nothing runs.
        return Publish(replicas, "keep" if self._book.counts[State.RUNNING] else "wait")
