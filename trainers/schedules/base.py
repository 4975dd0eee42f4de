"""The language between a schedule and whatever drives it: events in, actions out.

A schedule decides which group of trajectories to launch, interrupt, carry on, drop and hand to the trainer,
and which replica of the engine loads new weights when. It is a pure state machine: no I/O, no clock, no
randomness. So the same object can be driven by a runtime with real episodes and by a simulation, replayed,
and tested exhaustively. Callbacks into the runtime were rejected: they hide the order of effects.

Every trajectory that a schedule launches ends in exactly one of: emitted in a batch, dropped with a
reason, or still known to it (running, parked or finished).

What a driver promises:

- Actions are carried out in their order. :class:`Park`, :class:`Drop` and :class:`Migrate` hold at once; a
  result that was already on its way may still come as :class:`Finished` or :class:`Failed`, also twice.
  What is asked of a trajectory that has finished, while the schedule does not know it yet, changes nothing
  (:class:`Drop` does take it out).
- A finished group may be refused (dynamic sampling: its rewards are equal). Its last member's result then
  comes as a final :class:`Failed` in place of :class:`Finished`: of the one with which as many are finished
  as a batch has of a group. A group of which the schedule was told that it is complete is never refused. If
  a restart comes before the verdict, that member is told as parked, and the verdict follows.
- At most one batch is with the trainer: after :class:`Emit` comes :class:`Trained`, before the next one.
- :class:`Stage` changes nothing: a driver may ignore it, and a restart forgets it.
- :class:`Publish` loads the newest weights and is answered by one :class:`Published` a replica.
- Weights that a replica holds change only by :class:`Publish`. When a replica dies (:class:`ReplicaDown`),
  what the schedule had placed on it is parked, with the prefix that was kept; what was left to the driver
  (``ANY``) the driver places anew. When the last one dies, the run ends.
- A replica that joins or comes back (:class:`ReplicaUp`) with older weights than have been served runs
  nothing that was left to the driver before it has loaded newer ones: that counts on weights no older than
  those that were served when it was placed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from agentic_gym.engines.base import ANY as ANY  # which replica: the driver takes one
from agentic_gym.engines.base import PublishMode
from agentic_gym.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Known:
    """A trajectory that the ledger has when launching begins.

    Attributes:
        trajectory_id: of it.
        version: of the weights that its first token was sampled from, or those at its launch.
    """

    trajectory_id: str
    version: int = 0


@dataclass(frozen=True, slots=True)
class Begun:
    """Launching may start: at the start of a run, or again after a restart.

    Attributes:
        parked: launched before and unfinished; none runs until the schedule resumes it.
        finished: finished before and in no batch.
        next_group: the first number that no group has had.
        version: of the trainer's weights.
        replicas: version that each replica serves.
    """

    parked: Sequence[Known] = ()
    finished: Sequence[Known] = ()
    next_group: int = 0
    version: int = 0
    replicas: Mapping[int, int] = field(default_factory=lambda: {0: 0})


@dataclass(frozen=True, slots=True)
class Finished:
    """A trajectory is complete and in the ledger.

    Attributes:
        trajectory_id: of it.
        seconds: that it took, without the time in which it was parked.
    """

    trajectory_id: str
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Failed:
    """A trajectory ended as ``infra_error``, or its group is refused.

    Attributes:
        trajectory_id: of it.
        reason: why.
        final: it is not tried again: its group is dropped whole, with ``reason``, and does not count as lost;
            another group takes its place.
        seconds: that it took, if it is final, without the time in which it was parked.
    """

    trajectory_id: str
    reason: str
    final: bool = False
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Trained:
    """The emitted batch has been trained on; the weights have this version."""

    version: int


@dataclass(frozen=True, slots=True)
class Published:
    """A replica serves this version."""

    version: int
    replica: int = 0


@dataclass(frozen=True, slots=True)
class ReplicaUp:
    """A replica has joined, or is back; it serves this version and runs nothing."""

    replica: int
    version: int


@dataclass(frozen=True, slots=True)
class ReplicaDown:
    """A replica is gone."""

    replica: int


@dataclass(frozen=True, slots=True)
class ReplicaLoad:
    """What a replica holds now.

    Attributes:
        kv_tokens: of running trajectories.
        kv_capacity: tokens that fit.
    """

    kv_tokens: int
    kv_capacity: int

    @property
    def kv_share(self) -> float:
        """Share of the capacity that is used; 0 where there is none."""
        return self.kv_tokens / self.kv_capacity if self.kv_capacity else 0.0


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed. Sent about once a second.

    Attributes:
        seconds: since the run began.
        hour: of the day, local time, from 0 to 24.
        loads: of the replicas.
    """

    seconds: float
    hour: float = 0.0
    loads: Mapping[int, ReplicaLoad] = field(default_factory=dict)


Event = (
    Begun | Finished | Failed | Trained | Published | ReplicaUp | ReplicaDown | Tick
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Launch:
    """Start a new group: one task, ``size`` trajectories named by :func:`trajectory_id`.

    Attributes:
        group: its number, the next that no group has had.
        size: trajectories.
        replica: that serves them.
        task_of: an earlier group whose task is played again; None: the next task.
    """

    group: int
    size: int
    replica: int = ANY
    task_of: int | None = None


@dataclass(frozen=True, slots=True)
class Retry:
    """Start a trajectory again from nothing: same task, same seed, same name. Its prefix is forgotten."""

    trajectory_id: str
    replica: int = ANY


@dataclass(frozen=True, slots=True)
class Park:
    """Interrupt a running trajectory; its prefix is kept."""

    trajectory_id: str


@dataclass(frozen=True, slots=True)
class Resume:
    """Carry a parked trajectory on from its prefix; from nothing if it has none."""

    trajectory_id: str
    replica: int = ANY


@dataclass(frozen=True, slots=True)
class Migrate:
    """Move a running trajectory to another replica, which carries it on from its prefix."""

    trajectory_id: str
    replica: int


@dataclass(frozen=True, slots=True)
class Drop:
    """Take a trajectory out, whatever it does."""

    trajectory_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Stage:
    """These whole, finished groups will be in the next batch, whatever happens to the others.

    Each is staged at most once a batch, never while the trainer has one, and before a kill: afterwards it may
    be staged again. A batch need not have been staged, nor all of it.
    """

    trajectory_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Emit:
    """Hand these to the trainer as one batch, in this order."""

    trajectory_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Publish:
    """Load the newest weights into replicas.

    Attributes:
        replicas: which; None: all.
        mode: what becomes of requests that run there.
    """

    replicas: tuple[int, ...] | None = None
    mode: PublishMode = "wait"


@dataclass(frozen=True, slots=True)
class Assign:
    """Give a replica's machine another role: to serve the policy, or to help the trainer."""

    replica: int
    role: Literal["generate", "train"]


@dataclass(frozen=True, slots=True)
class Halt:
    """Give up: the machinery is broken."""

    reason: str


Action = (
    Launch | Retry | Park | Resume | Migrate | Drop | Stage | Emit | Publish | Assign | Halt
)  # fmt: skip


class Schedule(Protocol):
    """A rollout schedule.

    It may have a method ``metrics() -> Mapping[str, float]`` besides: what it says stands among the metrics
    of each update (:func:`metrics_of`).
    """

    def handle(self, event: Event) -> list[Action]:
        """What to do now, in this order."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """JSON-able state that the ledger does not know.

        It may be saved a while before a kill, and the ledger have moved on since: where they differ, the
        ledger is right.
        """
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over a saved state; :class:`Begun` then brings what the ledger knows.

        Until then ``state_dict`` says what was loaded.
        """
        ...


def metrics_of(schedule: Schedule) -> dict[str, float]:
    """What a schedule says of itself with a batch that it has just handed over; most say nothing."""
    metrics = getattr(schedule, "metrics", None)
    return dict(metrics()) if callable(metrics) else {}


def group_id(group: int) -> str:
    """Name of a group; names sort in launch order.

    >>> group_id(7)
    'g000007'
    """
    return f"g{group:06d}"


def trajectory_id(group: int, member: int) -> str:
    """Name of a trajectory within its group.

    >>> trajectory_id(7, 2)
    'g000007.02'
    """
    return f"{group_id(group)}.{member:02d}"


def parse_id(name: str) -> tuple[int, int]:
    """Group and member of a trajectory's name.

    >>> parse_id("g000007.02")
    (7, 2)

    Raises:
        ConfigError: the name is none that :func:`trajectory_id` makes.
    """
    group, _, member = name.removeprefix("g").partition(".")
    if not (name.startswith("g") and group.isdecimal() and member.isdecimal()):
        raise ConfigError(f"{name!r} was not launched by a schedule: names look like g000007.02")
    return int(group), int(member)
