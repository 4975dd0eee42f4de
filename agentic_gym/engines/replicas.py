"""Several engines as one, for schedules that place, park, resume and migrate episodes.

A session (one episode) is served by one replica at a time: the one that :meth:`ReplicaSet.place` names, or
(``ANY``) the one with the fewest requests when it begins, which it then keeps, because its keys and values
are there. A request that a park, a migration or the end of its replica interrupts is carried on from what
was sampled, elsewhere or later, as if it had never been interrupted: with equal weights the same tokens come
out, because the noise goes on where it stopped (``SamplingParams.noise_offset``). Whoever called ``generate``
sees one completion, whose tokens carry the versions that sampled them.

Rejected: sending what was sampled as forced tokens (a forward pass for each, where a prompt takes one for
all); moving keys and values between replicas (they would have to agree in memory layout, and a prefill is
cheap beside the turns that follow).
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from agentic_gym.engines.base import ANY, Engine, EngineLoad, PublishMode, joined
from agentic_gym.engines.placement import Placement, Replica, Request, Session
from agentic_gym.engines.watched import WatchedEngine
from agentic_gym.errors import ConfigError, EngineError
from agentic_gym.types import Completion, SamplingParams


class ReplicaSet:
    """Engines behind the protocol of one (:class:`agentic_gym.engines.base.Engine`).

    :meth:`place`, :meth:`park`, :meth:`resume` and :meth:`migrate` hold at once: a replica that a session has
    left ends its request as soon as it can, and what was sampled until then is kept.

    Args:
        engines: by replica number.
        on_down: told the number of a replica that has died by itself, once its sessions are parked or
            free to go elsewhere. Not told of :meth:`kill`. A replica that has nothing to do is found dead
            by :meth:`loads`. An attribute: it may be set later.

    Raises:
        ConfigError: no engine, or a negative number.
    """

    def __init__(
        self, engines: Mapping[int, Engine], *, on_down: Callable[[int], None] | None = None
    ) -> None:
        if not engines or min(engines) < 0:
            raise ConfigError(
                f"a replica set needs engines with numbers from 0, not {sorted(engines)}"
            )
        self._placement = Placement()
        self._replicas = self._placement.replicas
        self.on_down = on_down
        self._requests: dict[str, Request] = {}
        self._last_version = 0
        self._newest = 0  # that was served when a replica last joined or went
        self._death: EngineError | None = None  # of the last replica
        self._closed = False
        for number in sorted(engines):
            self._add(number, engines[number], joins_at=0)

    # ---- what there is ---------------------------------------------------------------------------

    def replica(self, number: int) -> Engine:
        """One replica, for what concerns it alone (comparing its weights, say); its death is noticed.

        Raises:
            EngineError: it is gone.
            ConfigError: there never was such a replica.
        """
        if self._placement.is_gone(number):
            raise EngineError(f"replica {number} is gone")
        return self._placement.find(number).engine

    @property
    def versions(self) -> dict[int, int]:
        """Version that each replica serves."""
        return {number: replica.engine.version for number, replica in self._replicas.items()}

    @property
    def version(self) -> int:
        """The newest that a replica serves; when none is left, that of the last."""
        return max(self.versions.values(), default=self._last_version)

    @property
    def alive(self) -> bool:
        """Whether a replica lives and the set is open."""
        return bool(self._replicas) and not self._closed

    @property
    def load(self) -> EngineLoad:
        """The sum over the replicas, and the requests that wait for one."""
        loads = list(self.loads().values())
        return EngineLoad(
            len(self._requests),
            sum(load.kv_tokens for load in loads),
            sum(load.kv_capacity for load in loads),
        )

    def loads(self) -> dict[int, EngineLoad]:
        """What each replica has to do now.

        Keys and values count for the requests that run, and for sessions between two requests as many as
        their conversation is long. Parked sessions count nowhere.
        """
        for replica in list(self._replicas.values()):
            replica.engine.look(EngineError(f"replica {replica.number} has died"))
        loads = {}
        for number, replica in self._replicas.items():
            own = replica.engine.load
            between = sum(s.num_tokens for s in replica.sessions if not s.requests)
            loads[number] = EngineLoad(
                replica.num_requests, own.kv_tokens + between, own.kv_capacity
            )
        return loads

    # ---- who serves whom -------------------------------------------------------------------------

    def place(self, session_id: str, replica: int = ANY) -> None:
        """From now on this replica serves the session, whatever it did before.

        Args:
            session_id: of the episode; one that is not known yet will begin there.
            replica: its number. ``ANY``: where it is, or for one that is parked or new, the replica with
                the fewest requests. A replica that is gone: the session is parked.

        Raises:
            ConfigError: there never was such a replica.
        """
        self._follow(self._placement.place(session_id, replica))

    def park(self, session_id: str) -> None:
        """Interrupts a session: its requests wait, those to come too, until it is resumed."""
        self._follow(self._placement.park(session_id))

    def resume(self, session_id: str, replica: int = ANY) -> None:
        """Carries a parked session on, from what it has sampled; see :meth:`place`."""
        self.place(session_id, replica)

    def migrate(self, session_id: str, replica: int) -> None:
        """Moves a session, which is carried on from what it has sampled; see :meth:`place`."""
        self.place(session_id, replica)

    def add(self, replica: int, engine: Engine) -> None:
        """A replica joins, or is back; requests that found none go there.

        Where older weights come with it than have been served, it gets only what is placed there until it
        has loaded newer ones: what was left to us counts on weights no older than there were.

        Raises:
            ConfigError: the number is taken or negative.
        """
        self._newest = max([self._newest, *self.versions.values()])
        self._add(replica, engine, self._newest)

    def _add(self, replica: int, engine: Engine, joins_at: int) -> None:
        watched = WatchedEngine(engine, lambda error: self._lost(added, error), self._wake_all)
        added = self._placement.add(replica, watched, joins_at)
        self._death = None
        self._wake_all()

    async def kill(self, replica: int) -> None:
        """Closes a replica. Sessions that were placed there are parked, the others go elsewhere.

        When the last is killed, requests wait for :meth:`add`; when it dies by itself, they fail.

        Raises:
            ConfigError: there never was such a replica.
        """
        if not self._placement.is_gone(replica):
            killed = self._placement.find(replica)
            self._remove(killed)
            await killed.engine.close()

    # ---- the engine protocol ---------------------------------------------------------------------

    async def generate(
        self,
        prompt_ids: Sequence[int],
        sampling: SamplingParams,
        *,
        request_id: str,
        session_id: str | None = None,
    ) -> Completion:
        """Samples one completion, wherever its session is; see :class:`~agentic_gym.engines.base.Engine`.

        Raises:
            EngineError: generation failed, the last replica has died, or the set is closed.
            ConfigError: a running request has the same id, or an engine refuses this one.
        """
        if self._closed:
            raise EngineError("the engine is closed")
        if request_id in self._requests:
            raise ConfigError(f"a request named {request_id!r} is running; ids must be unique")
        session = Session(None) if session_id is None else self._placement.session(session_id)
        session.released = session_id is None
        request = Request(request_id, session, asyncio.get_running_loop())
        self._requests[request_id] = request
        session.requests.append(request)
        try:
            return await self._serve(request, list(prompt_ids), sampling)
        finally:
            del self._requests[request_id]
            session.requests.remove(request)
            if session.released and not session.requests:
                await self._forget(session)

    async def abort(self, request_id: str) -> None:
        """Ends a request now, also one that waits; its ``generate`` returns what was sampled."""
        request = self._requests.get(request_id)
        if request is not None:
            request.aborted = True
            request.wake.set()
            if request.replica is not None:
                await _abort(request.replica.engine, request_id)

    async def release(self, session_id: str) -> None:
        """Forgets a session, once its last request has ended: its place, and what is cached for it."""
        session = self._placement.known(session_id)
        if session is not None:
            session.released = True
            if not session.requests:
                await self._forget(session)

    async def publish(
        self,
        weights: Mapping[str, Any],
        version: int,
        *,
        mode: PublishMode = "wait",
        replica: int | None = None,
    ) -> None:
        """Loads new weights into one replica, or into all that there are.

        Raises:
            EngineError: one refuses them, the one that is meant is gone, or none is left.
            ConfigError: unknown mode, or there never was such a replica.
        """
        if replica is not None:
            await self.replica(replica).publish(weights, version, mode=mode)
            return
        engines = [one.engine for one in self._replicas.values()]
        results = await asyncio.gather(
            *(engine.publish(weights, version, mode=mode) for engine in engines),
            return_exceptions=True,
        )
        for engine, result in zip(engines, results, strict=True):
            if result is not None and engine.alive:
                raise result  # one that died meanwhile is no longer among those that were meant
        if not self._replicas:
            raise self._none_left()

    async def close(self) -> None:
        """Ends all requests, also those that wait, and closes the engines; idempotent."""
        self._closed = True
        for request in self._requests.values():
            request.aborted = True
        self._wake_all()
        await asyncio.gather(*(replica.engine.close() for replica in self._replicas.values()))

    # ---- serving a request -----------------------------------------------------------------------

    async def _serve(
        self, request: Request, prompt: list[int], sampling: SamplingParams
    ) -> Completion:
        """Attempt after attempt, each from what the ones before have sampled."""
        seed = secrets.randbits(63) if sampling.seed is None else sampling.seed
        parts: list[Completion] = []
        while (replica := await self._replica_for(request)) is not None:
            done = [token for part in parts for token in part.token_ids]
            rest = dataclasses.replace(
                sampling,
                max_tokens=sampling.max_tokens - len(done),
                seed=seed,
                forced=sampling.forced[len(done) :],
                noise_offset=sampling.noise_offset + len(done),
            )
            part = await self._attempt(request, replica, prompt + done, rest)
            if part is not None:
                parts.append(part)
                ours = request.moved or not replica.engine.alive
                if part.finish_reason != "abort" or not ours:
                    return joined(parts, part.finish_reason)
        return joined(parts, "abort")

    async def _replica_for(self, request: Request) -> Replica | None:
        """Waits until the request may run, and says where; None: it was aborted."""
        while not request.aborted:
            if self._death is not None:
                raise self._none_left()
            replica = self._placement.choose(request.session)
            if replica is not None:
                return replica
            request.wake.clear()
            await request.wake.wait()
        return None

    async def _attempt(
        self, request: Request, replica: Replica, prompt: list[int], sampling: SamplingParams
    ) -> Completion | None:
        """What one replica samples; None if it died, and what it had sampled with it."""
        session, engine = request.session, replica.engine
        request.replica, request.moved = replica, False
        replica.num_requests += 1
        session.num_tokens = len(prompt)
        left = session.held - {replica}
        session.held.add(replica)
        try:
            part = await engine.generate(
                prompt, sampling, request_id=request.request_id, session_id=session.session_id
            )
        except EngineError:
            if engine.alive:
                raise
            return None
        finally:
            request.replica = None
            replica.num_requests -= 1
            if request.aborting is not None:
                # It names this attempt by the id that the next one will have.
                await request.aborting
                request.aborting = None
        session.num_tokens += len(part.token_ids)
        await self._drop(session, left)
        return part

    def _follow(self, session: Session) -> None:
        """Makes a session's requests go where it is now."""
        for request in session.requests:
            if request.replica not in (None, session.home) and not request.moved:
                request.moved = True
                request.aborting = request.loop.create_task(
                    _abort(request.replica.engine, request.request_id)
                )
        self._wake(session.requests)

    def _wake(self, requests: Iterable[Request]) -> None:
        for request in requests:
            request.wake.set()

    def _wake_all(self) -> None:
        self._wake(self._requests.values())

    # ---- the ends of sessions and replicas -------------------------------------------------------

    async def _forget(self, session: Session) -> None:
        self._placement.forget(session)
        await self._drop(session, session.held)

    async def _drop(self, session: Session, replicas: set[Replica]) -> None:
        """Lets replicas forget what they hold of a session."""
        session.held = session.held - replicas
        for replica in replicas:
            if session.session_id is not None and replica.engine.alive:
                with contextlib.suppress(EngineError):
                    await replica.engine.release(session.session_id)

    def _remove(self, replica: Replica) -> None:
        self._newest = max(self._newest, self.version)
        self._last_version = replica.engine.version
        self._placement.remove(replica)

    def _lost(self, replica: Replica, error: EngineError) -> None:
        """A replica was found dead."""
        if self._closed or self._replicas.get(replica.number) is not replica:
            return
        self._remove(replica)
        if not self._replicas:
            self._death, self._newest = error, 0  # nothing is left that counts on any weights
            self._wake_all()
        if self.on_down is not None:
            self.on_down(replica.number)

    def _none_left(self) -> EngineError:
        error = EngineError(f"no replica is left: {self._death or 'the last was killed'}")
        error.__cause__ = self._death
        return error


async def _abort(engine: Engine, request_id: str) -> None:
    with contextlib.suppress(EngineError):
        await engine.abort(request_id)
