"""Switching between schedules at step boundaries, by rules.

What suits a run changes: other jobs share the machines by day, tails grow longer, weights that are released
should come from on-policy updates. The schedule changes when an update is done and before anything new is
launched: what runs is parked, and the next schedule begins with what is known, as after a restart. So none
needs anything of its own for this. Handing one's state to another was rejected: each pair would need its own
conversion.

A schedule keeps its promises for what it launches itself. What it takes over may be staler, or sampled by
several versions; it is trained, not dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentic_gym.errors import ConfigError
from agentic_gym.suggest import nearest_or_all
from agentic_gym.trainers.schedules.base import (
    ANY,
    Action,
    Assign,
    Begun,
    Drop,
    Emit,
    Event,
    Failed,
    Finished,
    Known,
    Launch,
    Migrate,
    Park,
    Published,
    ReplicaDown,
    ReplicaUp,
    Resume,
    Retry,
    Schedule,
    Tick,
    Trained,
    parse_id,
)
from agentic_gym.trainers.schedules.groups import GroupBook, State
from agentic_gym.trainers.schedules.plan_rules import Boundary, Rule
from agentic_gym.trainers.schedules.redundancy import TailRate

IN_FORCE = "schedule_in_force/"
"""Metric of each schedule of a plan: 1 while it is used, 0 otherwise."""


class Switching:
    """Uses one of several schedules at a time.

    At each boundary the first rule that holds names the schedule; if none holds, it is the default. All
    schedules must have the same batch size and group size.

    A schedule that is used again finds the state that it was left with, and the ledger corrects it.

    Args:
        schedules: make a new schedule, by name. Each is called once to find wrong options now.
        default: name of the schedule that is used while no rule holds.
        rules: the first that holds wins.
        min_updates: between two switches. A schedule is used for so long, whatever the rules say.
        history: finished trajectories that the long-tail rate is measured over. Several batches, or it is
            that of the last to finish in a batch.

    Attributes:
        active: name of the schedule that is used.

    Raises:
        ConfigError: a name is unknown, or a number is out of range.
    """

    def __init__(
        self,
        schedules: Mapping[str, Callable[[], Schedule]],
        default: str,
        rules: Sequence[Rule] = (),
        *,
        min_updates: int = 8,
        history: int = 512,
    ) -> None:
        for name in [default, *(rule.schedule for rule in rules)]:
            if name not in schedules:
                known = nearest_or_all(name, sorted(schedules))
                raise ConfigError(f"no schedule {name!r} is given to switch to.{known}")
        if min_updates < 1:
            raise ConfigError(f"min_updates={min_updates} must be at least 1")
        made = {name: make() for name, make in schedules.items()}
        self._schedules, self._default, self._rules = dict(schedules), default, tuple(rules)
        self._min_updates = min_updates
        self._tail = TailRate(window=history, memory=history, prior=0.0)
        self.active = default
        self._schedule = made[default]
        self._states: dict[str, Any] = {}  # of the schedules that were left
        self._since: int | None = None  # version at the last switch
        self._batch = (0, 0)  # trajectories and groups of the last one
        # What the active schedule and the driver have told each other.
        self._book = GroupBook()
        self._version = 0
        self._hour: float | None = None
        self._replicas: dict[int, int] = {}  # version that each serves
        self._oldest = 0  # of these
        self._lent: dict[int, None] = {}  # replicas that help the trainer

    def handle(self, event: Event) -> list[Action]:
        """See :class:`~agentic_gym.trainers.schedules.base.Schedule`."""
        match event:
            case Begun():
                self._book.begin(event)
                self._version, self._replicas = event.version, dict(event.replicas)
            case Finished(name, seconds) if self._book.finish(name):
                self._tail.observe(seconds)
            case Failed(name, _, True, seconds) if self._book.unfinished(name):
                self._tail.observe(seconds)
            case Trained(version):
                self._version = version
            case Published(version, replica):
                if replica in self._replicas:
                    self._replicas[replica] = version
            case ReplicaUp(replica, version):
                self._replicas[replica] = version
                self._lent.pop(replica, None)
            case ReplicaDown(replica):
                self._replicas.pop(replica, None)
                self._lent.pop(replica, None)
                self._book.replica_down(replica)
            case Tick(hour=hour):
                self._hour = hour
        if isinstance(event, Begun | Published | ReplicaUp | ReplicaDown):
            self._oldest = min(self._replicas.values(), default=0)
        if isinstance(event, Begun | Trained) and (chosen := self._choose()) != self.active:
            return self._switch(chosen)
        return self._follow(self._schedule.handle(event))

    def metrics(self) -> dict[str, float]:
        """Which schedule is in force: 1 for it, 0 for each of the others."""
        return {f"{IN_FORCE}{name}": float(name == self.active) for name in self._schedules}

    def state_dict(self) -> dict[str, Any]:
        """See :class:`~agentic_gym.trainers.schedules.base.Schedule`."""
        return {
            "active": self.active,
            "states": {**self._states, self.active: self._schedule.state_dict()},
            "since": self._since,
            "batch": list(self._batch),
            "tail": self._tail.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See :class:`~agentic_gym.trainers.schedules.base.Schedule`.

        Raises:
            ConfigError: the schedule that was used when the state was saved is not given any more.
        """
        active = state["active"]
        if active not in self._schedules:
            raise ConfigError(
                f"the run was saved while it used the schedule {active!r}, which is not given to "
                f"switch to.{nearest_or_all(active, sorted(self._schedules))}"
            )
        self._states, self._since = dict(state["states"]), state["since"]
        self._batch = (state["batch"][0], state["batch"][1])
        self._tail.load_state_dict(state["tail"])
        self._use(active)

    # ---- switching -------------------------------------------------------------------------------

    def _choose(self) -> str:
        if self._since is not None and self._version - self._since < self._min_updates:
            return self.active
        groups = self._batch[1]
        pressure = len(self._book.complete) / groups if groups else None
        at = Boundary(self._version, self._hour, pressure, self._tail.rate)
        for rule in self._rules:
            holds = rule.holds(at)
            if holds is not False:
                return rule.schedule if holds else self.active
        return self._default

    def _switch(self, name: str) -> list[Action]:
        """Parks what runs, and lets another schedule begin."""
        book = self._book
        self._states[self.active] = self._schedule.state_dict()
        self._use(name)
        self._since = self._version
        actions: list[Action] = [Assign(replica, "generate") for replica in self._lent]
        self._lent = {}
        actions += [book.park(n) for n, _ in list(book.members(State.RUNNING))]
        actions += self._cut()
        parked, finished = (
            [Known(n, member.version) for n, member in book.members(state)]
            for state in (State.PARKED, State.FINISHED)
        )
        begun = Begun(parked, finished, book.next_group, self._version, dict(self._replicas))
        return actions + self._follow(self._schedule.handle(begun))

    def _use(self, name: str) -> None:
        self.active = name
        self._schedule = self._schedules[name]()
        if name in self._states:
            self._schedule.load_state_dict(self._states.pop(name))

    def _cut(self) -> list[Action]:
        """Drops what groups have beyond their size in a batch: members that only raced with the others."""
        trajectories, groups = self._batch
        size = trajectories // groups if groups else 0
        actions: list[Action] = []
        for group in list(self._book.groups.values()):
            if 0 < size < len(group.members):
                # Those that finished stay, then those launched first: what the race asked for.
                names = group.names(State.FINISHED) + group.names(State.PARKED)
                reason = f"{size} of its group are enough"
                actions += [self._book.drop_member(name, reason) for name in names[size:]]
        return actions

    # ---- watching --------------------------------------------------------------------------------

    def _follow(self, actions: list[Action]) -> list[Action]:
        """Takes note of what the active schedule does."""
        book = self._book
        for action in actions:
            match action:
                case Launch(_, size, replica):
                    book.launch(self._served(replica), replica=replica, size=size)
                case Retry(name, replica):
                    book.retry(name, version=self._served(replica), replica=replica)
                case Park(name):
                    book.park(name)
                case Resume(name, replica):
                    book.resume(name, replica=replica)
                case Migrate(name, replica):
                    book.migrate(name, replica)
                case Drop(name, reason):
                    book.drop_member(name, reason)
                case Emit(names):
                    self._batch = (len(names), len({parse_id(name)[0] for name in names}))
                    for name in names:
                        book.drop_member(name, "in a batch")
                case Assign(replica, "train"):
                    self._lent[replica] = None
                case Assign(replica, _):
                    self._lent.pop(replica, None)
        return actions

    def _served(self, replica: int) -> int:
        """Version that a new attempt is sampled by, or an older one if the driver places it."""
        return self._oldest if replica == ANY else self._replicas[replica]
