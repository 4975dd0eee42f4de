"""The language between a schedule and whatever drives it: events in, actions out.

A schedule decides which group of trajectories to launch, retry, drop and hand to the trainer, and when
to publish. It is a pure state machine: no I/O, no clock, no randomness. So the same object can be
driven by a runtime with real episodes and by a simulation, replayed, and tested exhaustively. Callbacks
into the runtime were rejected: they hide the order of effects.

Every trajectory that a schedule launches ends in exactly one of: emitted in a batch, dropped with a
reason, or still known to it (running or finished).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agentic_gym.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Begun:
    """Launching may start: at the start of a run, or again after a restart.

    Attributes:
        running: launched before and unfinished; they are launched again by whoever sends this.
        finished: finished before and in no batch.
        next_group: the first number that no group has had.
    """

    running: Sequence[str] = ()
    finished: Sequence[str] = ()
    next_group: int = 0


@dataclass(frozen=True, slots=True)
class Finished:
    """A trajectory is complete and in the ledger."""

    trajectory_id: str


@dataclass(frozen=True, slots=True)
class Failed:
    """A trajectory ended as ``infra_error``."""

    trajectory_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Trained:
    """The emitted batch has been trained on; the weights have this version."""

    version: int


@dataclass(frozen=True, slots=True)
class Published:
    """The engine serves this version."""

    version: int


Event = Begun | Finished | Failed | Trained | Published


@dataclass(frozen=True, slots=True)
class Launch:
    """Start a new group: one task, ``size`` trajectories named by :func:`trajectory_id`."""

    group: int
    size: int


@dataclass(frozen=True, slots=True)
class Retry:
    """Start a failed trajectory again: same task, same seed, same name."""

    trajectory_id: str


@dataclass(frozen=True, slots=True)
class Drop:
    """Take a trajectory out, running or finished."""

    trajectory_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Emit:
    """Hand these to the trainer as one batch, in this order."""

    trajectory_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Publish:
    """Load the newest weights into the engine."""


@dataclass(frozen=True, slots=True)
class Halt:
    """Give up: the machinery is broken."""

    reason: str


Action = Launch | Retry | Drop | Emit | Publish | Halt


class Schedule(Protocol):
    """A rollout schedule."""

    def handle(self, event: Event) -> list[Action]:
        """What to do now, in this order."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """JSON-able state that the ledger does not know."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over a saved state; :class:`Begun` then brings what the ledger knows."""
        ...


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
