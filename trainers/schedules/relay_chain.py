"""How new weights reach the nodes: trainer, master relay, and from relay to relay down a chain.

Source: Laminar (arXiv 2510.12633), its relay workers and their fault tolerance. The trainer sends its
weights once, to the master, which is the relay at the head of the chain, and goes on; whatever happens
further down costs it nothing. A replica loads from the relay on its own node. That every replica asks the
trainer was rejected: the trainer would wait for all of them.

Events in, actions out, as in :mod:`agentic_gym.trainers.schedules.base`: no I/O and no clock. Whole
versions are counted; that a relay passes on the first chunks while the last are still on their way is the
transport's work. What the driver promises:

- Each :class:`Send` is carried out, and answered by :class:`Received`, or is lost. A relay that is given
  a version older than what it holds (a copy that was thought lost) throws it away.
- :class:`Clock` comes once per heartbeat interval or oftener. It alone finds the dead.
- A relay whose process starts says :class:`NodeJoined`, also when nobody noticed that the old one died.
  One that was only unreachable goes on with its heartbeats, and still holds what it held. When a run is
  taken up again from a checkpoint, all relays are started anew: what they held may never have been.
- Events of one relay come in their order.
- The trainer keeps its newest weights until the next: they are sent again if the only relay that has
  them dies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentic_gym.errors import ConfigError

TRAINER = -1
"""Source of what the master is sent."""

NOTHING = -1
"""Version of a relay that holds no weights yet."""


@dataclass(frozen=True, slots=True)
class Pushed:
    """The trainer has weights of this version to give out."""

    version: int


@dataclass(frozen=True, slots=True)
class Received:
    """A relay holds this version, complete."""

    node: int
    version: int


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A relay lives.

    Attributes:
        node: its node.
        now: seconds, on the driver's clock.
    """

    node: int
    now: float


@dataclass(frozen=True, slots=True)
class Clock:
    """Time has passed.

    Attributes:
        now: seconds, on the driver's clock.
    """

    now: float


@dataclass(frozen=True, slots=True)
class NodeJoined:
    """A relay has started; it holds nothing."""

    node: int


@dataclass(frozen=True, slots=True)
class NodeLeft:
    """A relay has stopped for good, or is known to be dead."""

    node: int


ChainEvent = Pushed | Received | Heartbeat | Clock | NodeJoined | NodeLeft


@dataclass(frozen=True, slots=True)
class Send:
    """Copy weights from one relay to another.

    Attributes:
        source: node that holds them; ``TRAINER``: the trainer, which waits for this one alone.
        destination: node that gets them.
        version: of them.
    """

    source: int
    destination: int
    version: int


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The chain has changed.

    Attributes:
        order: nodes that live, the master first.
    """

    order: tuple[int, ...]


ChainAction = Send | Rebuilt


@dataclass(slots=True)
class _Relay:
    """What is known of a relay: what it holds, when it was last heard, and what is on its way to it."""

    version: int
    heard: float
    coming: Send | None = None
    sent_at: float = 0.0


class RelayChain:
    """Distribution of weights over a chain of relays.

    Once nothing more goes wrong, every relay that lives ends with the newest version. Versions that a
    newer one has overtaken are not sent on. An event costs at most a pass over the chain.

    Args:
        interval_seconds: between two heartbeats of a relay.
        missed: a relay is dead when nothing was heard of it for more than so many intervals.
        resend_seconds: after which a :class:`Send` that is unanswered counts as lost. Give several times
            what the weights take from node to node: what is sent too early is sent twice.

    Raises:
        ConfigError: a number is out of range.
    """

    def __init__(
        self, *, interval_seconds: float = 0.2, missed: int = 3, resend_seconds: float = 60.0
    ) -> None:
        if not (interval_seconds > 0 and missed >= 1 and resend_seconds > 0):
            raise ConfigError(
                f"interval_seconds={interval_seconds:g}, missed={missed} and "
                f"resend_seconds={resend_seconds:g} must be positive"
            )
        self._silence = interval_seconds * missed
        self._resend_seconds = resend_seconds
        self._order: list[int] = []
        # The dead too: they may turn out to have been unreachable only.
        self._relays: dict[int, _Relay] = {}
        self._newest = NOTHING
        self._now = 0.0

    @property
    def master(self) -> int | None:
        """Node that the trainer sends to; None while no relay lives."""
        return self._order[0] if self._order else None

    @property
    def order(self) -> Sequence[int]:
        """Nodes that live, the master first."""
        return tuple(self._order)

    @property
    def versions(self) -> Mapping[int, int]:
        """Version that each living relay holds: what a replica on its node can load now."""
        return {node: self._relays[node].version for node in self._order}

    def handle(self, event: ChainEvent) -> list[ChainAction]:
        """What to do now, in this order."""
        match event:
            case Pushed(version):
                self._newest = max(self._newest, version)
                return self._feed(0)
            case Received(node, version):
                return self._receive(node, version)
            case Heartbeat(node, now):
                return self._hear(node, now)
            case Clock(now):
                return self._pass_time(now)
            case NodeJoined(node):
                actions = self._cut({node})
                self._relays[node] = _Relay(NOTHING, self._now)
                return actions + self._append(node)
            case NodeLeft(node):
                actions = self._cut({node})
                self._relays.pop(node, None)
                return actions

    # ---- events ----------------------------------------------------------------------------------

    def _receive(self, node: int, version: int) -> list[ChainAction]:
        relay = self._relays.get(node)
        if relay is None:
            return []
        relay.version = max(relay.version, version)
        if relay.coming is not None and relay.coming.version <= version:
            relay.coming = None
        if node not in self._order:
            return []
        place = self._order.index(node)
        return self._feed(place) + self._feed(place + 1)

    def _hear(self, node: int, now: float) -> list[ChainAction]:
        self._now = max(self._now, now)
        relay = self._relays.get(node)
        if relay is None:
            return []  # it has left, or has not said yet what it holds
        relay.heard = self._now
        return [] if node in self._order else self._append(node)

    def _pass_time(self, now: float) -> list[ChainAction]:
        if now - self._now > self._silence:
            # Whoever calls this slept himself: that he heard nothing says nothing about the relays.
            for node in self._order:
                self._relays[node].heard = now
        self._now = max(self._now, now)
        silent = {n for n in self._order if self._now - self._relays[n].heard > self._silence}
        actions = self._cut(silent)
        for place, node in enumerate(self._order):
            relay = self._relays[node]
            if relay.coming is not None and self._now - relay.sent_at >= self._resend_seconds:
                relay.coming = None
                actions += self._feed(place)
        return actions

    # ---- the chain -------------------------------------------------------------------------------

    def _append(self, node: int) -> list[ChainAction]:
        """A relay joins at the end, where it comes between no two others."""
        self._order.append(node)
        return [Rebuilt(tuple(self._order)), *self._feed(len(self._order) - 1)]

    def _cut(self, nodes: set[int]) -> list[ChainAction]:
        """Takes relays out; who came after one is fed by whoever lives before it."""
        if nodes.isdisjoint(self._order):
            return []
        self._order = [node for node in self._order if node not in nodes]
        for node in nodes & self._relays.keys():
            self._relays[node].coming = None
        actions: list[ChainAction] = [Rebuilt(tuple(self._order))]
        for place, node in enumerate(self._order):
            coming = self._relays[node].coming
            if coming is not None and coming.source in nodes:
                self._relays[node].coming = None
            actions += self._feed(place)
        return actions

    def _feed(self, place: int) -> list[ChainAction]:
        """Sends the relay at this place what the one before it has and it lacks."""
        if place >= len(self._order):
            return []
        node = self._order[place]
        source = self._order[place - 1] if place else TRAINER
        held = self._relays[source].version if place else self._newest
        relay = self._relays[node]
        # One at a time: a relay that is being sent something gets what has come since afterwards.
        if held <= relay.version or relay.coming is not None:
            return []
        relay.coming, relay.sent_at = Send(source, node, held), self._now
        return [relay.coming]
