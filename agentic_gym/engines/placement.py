"""Which replica serves which session: the bookkeeping of a :class:`~agentic_gym.engines.replicas.ReplicaSet`.

No engine is called here and nothing waits. A session's ``home`` is the replica that serves it; the set around
this makes the session's requests follow it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from agentic_gym.engines.base import ANY
from agentic_gym.engines.watched import WatchedEngine
from agentic_gym.errors import ConfigError


@dataclass(eq=False, slots=True)
class Replica:
    """One engine.

    Attributes:
        number: of the replica.
        engine: that it runs.
        joins_at: version that it has to serve before :meth:`Placement.choose` takes it.
        sessions: whose home it is; none of them is parked.
        num_requests: that it serves now.
    """

    number: int
    engine: WatchedEngine
    joins_at: int = 0
    sessions: set[Session] = field(default_factory=set)
    num_requests: int = 0


@dataclass(eq=False, slots=True)
class Session:
    """One episode.

    Attributes:
        session_id: None: a single request without an episode.
        home: that serves it; None: not chosen yet, or parked.
        placed: its home was named, not left to us.
        parked: its requests wait.
        released: to be forgotten once its last request has ended.
        requests: that run or wait, in the order in which they came.
        held: replicas that may hold keys and values of it.
        num_tokens: of its conversation, as far as is known.
    """

    session_id: str | None
    home: Replica | None = None
    placed: bool = False
    parked: bool = False
    released: bool = False
    requests: list[Request] = field(default_factory=list)
    held: set[Replica] = field(default_factory=set)
    num_tokens: int = 0


@dataclass(eq=False, slots=True)
class Request:
    """One ``generate``, in one or more attempts.

    Attributes:
        request_id: unique among running ones.
        session: that it belongs to.
        loop: on which its caller waits.
        replica: that it runs on now, or None.
        moved: its present attempt was interrupted in order to go on elsewhere or later.
        aborted: by the caller.
        aborting: the interrupt, under way.
        wake: set when it is worth looking again whether it may run.
    """

    request_id: str
    session: Session
    loop: asyncio.AbstractEventLoop
    replica: Replica | None = None
    moved: bool = False
    aborted: bool = False
    aborting: asyncio.Task[None] | None = None
    wake: asyncio.Event = field(default_factory=asyncio.Event)


class Placement:
    """Replicas and the sessions that they serve.

    Attributes:
        replicas: that live, by number.
    """

    def __init__(self) -> None:
        self.replicas: dict[int, Replica] = {}
        self._sessions: dict[str, Session] = {}
        self._gone: set[int] = set()

    def is_gone(self, number: int) -> bool:
        """There was such a replica, and there is none now."""
        return number in self._gone

    def find(self, number: int) -> Replica:
        """The replica of this number.

        Raises:
            ConfigError: there is none.
        """
        if number not in self.replicas:
            raise ConfigError(f"there is no replica {number}; there are {sorted(self.replicas)}")
        return self.replicas[number]

    def known(self, session_id: str) -> Session | None:
        """The session of this name, if it was heard of."""
        return self._sessions.get(session_id)

    def session(self, session_id: str) -> Session:
        """The session of this name, perhaps a new one."""
        return self._sessions.setdefault(session_id, Session(session_id))

    def place(self, session_id: str, number: int) -> Session:
        """Gives a session a home, or (``ANY``) leaves that to :meth:`choose`, unless it has one.

        Where the replica is gone, the session is parked: it went before the caller could know.

        Raises:
            ConfigError: there never was such a replica.
        """
        if number in self._gone:
            return self.park(session_id)
        home = None if number == ANY else self.find(number)
        session = self.session(session_id)
        session.released = session.parked = False
        session.placed = home is not None
        if home is not None:
            self._settle(session, home)
        return session

    def park(self, session_id: str) -> Session:
        """Takes a session its home until it is placed again."""
        session = self.session(session_id)
        session.parked = True
        self._settle(session, None)
        return session

    def choose(self, session: Session) -> Replica | None:
        """The session's home, found for it if need be; None while it has to wait.

        Of those that have caught up (``joins_at``), that with the fewest requests; of several, one that
        holds its keys and values, else one with few sessions.
        """
        ready = [r for r in self.replicas.values() if r.engine.version >= r.joins_at]
        if session.home is None and not session.parked and ready:
            best = min(
                ready,
                key=lambda r: (r.num_requests, r not in session.held, len(r.sessions), r.number),
            )
            self._settle(session, best)
        return session.home

    def forget(self, session: Session) -> None:
        """The session is over."""
        self._settle(session, None)
        if session.session_id is not None:
            self._sessions.pop(session.session_id, None)

    def add(self, number: int, engine: WatchedEngine, joins_at: int = 0) -> Replica:
        """A replica joins, or is back.

        Args:
            number: of it.
            engine: that it runs.
            joins_at: version that it has to serve before :meth:`choose` takes it.

        Raises:
            ConfigError: the number is taken or negative.
        """
        if number in self.replicas or number < 0:
            raise ConfigError(
                f"replica {number} cannot be added: numbers are from 0, and taken are "
                f"{sorted(self.replicas)}"
            )
        replica = self.replicas[number] = Replica(number, engine, joins_at)
        self._gone.discard(number)
        return replica

    def remove(self, replica: Replica) -> None:
        """A replica is gone: what was placed there is parked, the rest has no home."""
        del self.replicas[replica.number]
        self._gone.add(replica.number)
        for session in list(replica.sessions):
            session.parked = session.placed
            self._settle(session, None)
        for session in self._sessions.values():
            session.held.discard(replica)

    def _settle(self, session: Session, home: Replica | None) -> None:
        if session.home is not None:
            session.home.sessions.discard(session)
        session.home = home
        if home is not None:
            home.sessions.add(session)
