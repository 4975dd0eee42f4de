"""What every schedule keeps about its groups: members, their states, retries and losses.

Infrastructure errors never shrink or bias a batch: a trajectory that broke is tried again with the same task
and seed; if it keeps breaking, its whole group is dropped with a reason (a group without one member has
another baseline). When group after group breaks, the run halts.

A group that the driver refuses is dropped whole too, at once and for the driver's reason. It was played to
its end, so the machinery works, and groups lost before it are forgiven.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentic_gym.errors import ConfigError
from agentic_gym.trainers.schedules.base import (
    ANY,
    Action,
    Begun,
    Drop,
    Halt,
    Launch,
    Migrate,
    Park,
    Resume,
    Retry,
    parse_id,
    trajectory_id,
)


class State(enum.Enum):
    """Of a trajectory that a schedule knows."""

    RUNNING = "running"
    PARKED = "parked"
    FINISHED = "finished"

    __hash__ = object.__hash__  # they are counted at every event, and an enum would hash its name


@dataclass(slots=True)
class Member:
    """A trajectory of a group. Its state is changed by :class:`GroupBook` alone.

    Attributes:
        version: of the weights that its first token was sampled from, or those at its launch: the oldest.
        state: what it does.
        replica: that serves it, or served it last; ``ANY``: left to the driver.
    """

    version: int
    state: State = State.RUNNING
    replica: int = ANY


@dataclass(slots=True)
class Group:
    """Trajectories of one task, launched together.

    Attributes:
        number: of the group.
        members: by name, in launch order.
        num_finished: of them.
    """

    number: int
    members: dict[str, Member] = field(default_factory=dict)
    num_finished: int = 0

    @property
    def complete(self) -> bool:
        """Every member is finished."""
        return self.num_finished == len(self.members)

    @property
    def version(self) -> int:
        """The oldest of its members."""
        return min(member.version for member in self.members.values())

    def names(self, state: State) -> list[str]:
        """Members in this state, in launch order."""
        return [name for name, member in self.members.items() if member.state is state]


class GroupBook:
    """The groups that a schedule has launched and neither emitted nor dropped.

    Everything but :meth:`begin` takes a time that does not grow with the number of groups.

    Args:
        group_size: trajectories of one task, launched together.
        max_retries: how often a broken trajectory is tried again.
        max_lost_groups: groups lost in a row, with none completed between, before the run halts.

    Attributes:
        groups: by number, in launch order.
        complete: those all of whose members are finished, by number, in the order in which they became so.
        counts: trajectories in each state.
        running_on: names of what runs, by replica (``ANY`` too), in the order in which it was put there.
        touched: replicas at which that has changed; whoever keeps count of it empties this.
        next_group: number of the next.

    Raises:
        ConfigError: a number is out of range.
    """

    def __init__(
        self, group_size: int = 1, *, max_retries: int = 2, max_lost_groups: int = 8
    ) -> None:
        if group_size < 1:
            raise ConfigError(f"group_size={group_size} must be positive")
        if max_retries < 0 or max_lost_groups < 0:
            raise ConfigError(
                f"max_retries={max_retries} and max_lost_groups={max_lost_groups} "
                "must not be negative"
            )
        self.group_size = group_size
        self.groups: dict[int, Group] = {}
        self.complete: dict[int, Group] = {}
        self.counts = dict.fromkeys(State, 0)
        self.running_on: dict[int, dict[str, None]] = {}
        self.touched: set[int] = set()
        self.next_group = 0
        self._members: dict[str, Member] = {}
        self._max_retries = max_retries
        self._max_lost_groups = max_lost_groups
        self._retries: dict[str, int] = {}
        self._lost = 0

    # ---- what is known ---------------------------------------------------------------------------

    def find(self, name: str) -> Member | None:
        """A trajectory that is neither emitted nor dropped, or None."""
        member = self._members.get(name)
        if member is None:
            parse_id(name)  # raises where it was never ours
        return member

    def members(self, state: State) -> Iterator[tuple[str, Member]]:
        """Trajectories in this state, in launch order. Looks at every group."""
        for group in self.groups.values():
            for name, member in group.members.items():
                if member.state is state:
                    yield name, member

    # ---- what happens ----------------------------------------------------------------------------

    def begin(self, event: Begun) -> list[Action]:
        """Takes over what the ledger knows; groups that are not whole are dropped."""
        self.groups, self.complete, self._members = {}, {}, {}
        self.running_on, self.touched = {}, set()
        self.counts = dict.fromkeys(State, 0)
        self.next_group = event.next_group
        known = [(k, State.PARKED) for k in event.parked]
        known += [(k, State.FINISHED) for k in event.finished]
        for item, state in sorted(known, key=lambda pair: parse_id(pair[0].trajectory_id)):
            number = parse_id(item.trajectory_id)[0]
            group = self.groups.setdefault(number, Group(number))
            self._enter(group, item.trajectory_id, Member(item.version, state))
        actions: list[Action] = []
        for number, group in list(self.groups.items()):
            # A kill may come between the drops of one group's members.
            if len(group.members) < self.group_size:
                actions += self.drop(number, "its group is not whole after a restart")
            elif group.complete:
                self.complete[number] = group
        return actions

    def launch(
        self,
        version: int,
        *,
        replica: int = ANY,
        size: int | None = None,
        task_of: int | None = None,
    ) -> Launch:
        """A new group under these weights.

        Args:
            version: that its replica serves.
            replica: that serves it.
            size: trajectories; None: ``group_size``.
            task_of: an earlier group whose task is played again.
        """
        number, self.next_group = self.next_group, self.next_group + 1
        size = self.group_size if size is None else size
        group = self.groups[number] = Group(number)
        for member in range(size):
            self._enter(
                group, trajectory_id(number, member), Member(version, State.RUNNING, replica)
            )
        return Launch(number, size, replica, task_of)

    def finish(self, name: str) -> bool:
        """A result has come. False: of a trajectory that is unknown by now, or finished before."""
        member = self.find(name)
        if member is None or member.state is State.FINISHED:
            return False
        self._change(name, member, State.FINISHED)
        group = self.groups[parse_id(name)[0]]
        group.num_finished += 1
        if group.complete:
            self.complete[group.number] = group
            self._lost = 0  # of members alone nothing can be trained
        self._retries.pop(name, None)
        return True

    def unfinished(self, name: str) -> bool:
        """It is known, and no result of it has come."""
        member = self.find(name)
        return member is not None and member.state is not State.FINISHED

    def fail(
        self,
        name: str,
        reason: str,
        *,
        version: int | None = None,
        replica: int = ANY,
        final: bool = False,
    ) -> list[Action]:
        """A trajectory broke: it is tried again, or its group is dropped, or the run halts.

        Args:
            name: of the trajectory.
            reason: why it broke.
            version: that ``replica`` serves: a new attempt samples from it alone. None: as before.
            replica: where it is tried again.
            final: it is not: its group is refused, and dropped with ``reason``.
        """
        if not self.unfinished(name):
            return []
        if final:
            self._lost = 0
            return self.drop(parse_id(name)[0], reason)
        tries = self._retries.get(name, 0) + 1
        if tries <= self._max_retries:
            self._retries[name] = tries
            return [self.retry(name, version=version, replica=replica)]
        self._lost += 1
        actions = self.drop(parse_id(name)[0], f"{name} broke {tries} times, last: {reason}")
        if self._lost > self._max_lost_groups:
            actions.append(Halt(f"{self._lost} groups in a row broke; the last: {reason}"))
        return actions

    def retry(self, name: str, *, version: int | None = None, replica: int = ANY) -> Retry:
        """Starts an unfinished trajectory again from nothing, under ``version``, on ``replica``."""
        member = self._unfinished(name)
        member.version = member.version if version is None else version
        self._change(name, member, State.RUNNING, replica)
        return Retry(name, replica)

    def park(self, name: str) -> Park:
        """Interrupts a running trajectory."""
        self._change(name, self._unfinished(name), State.PARKED)
        return Park(name)

    def resume(self, name: str, *, replica: int = ANY) -> Resume:
        """Carries a parked trajectory on."""
        self._change(name, self._unfinished(name), State.RUNNING, replica)
        return Resume(name, replica)

    def migrate(self, name: str, replica: int) -> Migrate:
        """Moves a running trajectory."""
        self._change(name, self._unfinished(name), State.RUNNING, replica)
        return Migrate(name, replica)

    def replica_down(self, replica: int) -> list[str]:
        """A replica is gone: what was placed there is parked. Returns the names."""
        names = list(self.running_on.get(replica, ()))
        for name in names:
            self._change(name, self._unfinished(name), State.PARKED)
        return names

    def drop(self, number: int, reason: str) -> list[Action]:
        """Takes a whole group out."""
        return [self.drop_member(name, reason) for name in list(self.groups[number].members)]

    def drop_member(self, name: str, reason: str) -> Drop:
        """Takes one trajectory out of its group (one more than needed, for instance)."""
        number = parse_id(name)[0]
        group = self.groups[number]
        member = group.members.pop(name)
        self._leave(name, member)
        group.num_finished -= member.state is State.FINISHED
        if not group.members:
            del self.groups[number]
            self.complete.pop(number, None)
        elif group.complete:
            self.complete.setdefault(number, group)
        return Drop(name, reason)

    def take(self, groups: Iterable[Group]) -> tuple[str, ...]:
        """Names of these groups' members, which leave the book: for a batch."""
        names: list[str] = []
        for group in list(groups):
            del self.groups[group.number]
            self.complete.pop(group.number, None)
            for name, member in group.members.items():
                self._leave(name, member)
                names.append(name)
        return tuple(names)

    # ---- state -----------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Retries so far; the ledger knows the rest."""
        return {"retries": dict(self._retries), "lost": self._lost}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over a saved state."""
        self._retries = dict(state["retries"])
        self._lost = int(state["lost"])

    # ---- counting --------------------------------------------------------------------------------

    def _unfinished(self, name: str) -> Member:
        member = self.find(name)
        if member is None or member.state is State.FINISHED:
            raise KeyError(f"{name} is not unfinished in this book")
        return member

    def _enter(self, group: Group, name: str, member: Member) -> None:
        group.members[name] = self._members[name] = member
        group.num_finished += member.state is State.FINISHED
        self.counts[member.state] += 1
        if member.state is State.RUNNING:
            self._run(name, member.replica)

    def _leave(self, name: str, member: Member) -> None:
        del self._members[name]
        self._retries.pop(name, None)
        self.counts[member.state] -= 1
        if member.state is State.RUNNING:
            self._stop(name, member.replica)

    def _change(self, name: str, member: Member, state: State, replica: int | None = None) -> None:
        if member.state is State.RUNNING:
            self._stop(name, member.replica)
        self.counts[member.state] -= 1
        self.counts[state] += 1
        member.state = state
        member.replica = member.replica if replica is None else replica
        if state is State.RUNNING:
            self._run(name, member.replica)

    def _run(self, name: str, replica: int) -> None:
        self.running_on.setdefault(replica, {})[name] = None
        self.touched.add(replica)

    def _stop(self, name: str, replica: int) -> None:
        del self.running_on[replica][name]
        self.touched.add(replica)


def check_batch(batch_size: int, group_size: int) -> int:
    """Number of groups in a batch.

    Raises:
        ConfigError: the batch does not consist of whole groups.
    """
    if group_size < 1 or batch_size < 1 or batch_size % group_size:
        raise ConfigError(
            f"batch_size={batch_size} must be a positive multiple of group_size={group_size}"
        )
    return batch_size // group_size
