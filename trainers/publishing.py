"""Which weights each replica serves, and how newer ones get there.

A replica that is told to load loads the newest weights that there are when its turn comes, and is proven
to serve them (:mod:`~agentic_gym.trainers.publisher`). What replicas go on serving when the trainer has
moved on is kept on disk, so that after a restart their episodes can be carried on by the very weights that
sampled them.

Where there are relays (:mod:`~agentic_gym.trainers.relays.network`), the trainer pushes its weights to the
first of them and goes on; a replica waits until the relay of its node holds what was the newest when its turn
came, and loads that. So a schedule that asks for the newest gets it, with relays and without.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from agentic_gym.engines.base import PublishMode
from agentic_gym.errors import EngineError
from agentic_gym.trainers.publisher import Weights
from agentic_gym.trainers.rollout_metrics import RolloutMetrics
from agentic_gym.trainers.run_parts import SERVED, Run


class Publishing:
    """See the module. Every method runs on the event loop.

    Args:
        run: what to work with.
        newest: weights of the trainer.
        spawn: starts a task whose failure ends the run.
        metrics: those that are being gathered.
        on_published: told the version and the replica that serves it now.
        on_error: given what ends the run.
    """

    def __init__(
        self,
        run: Run,
        newest: Weights,
        *,
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        metrics: Callable[[], RolloutMetrics],
        on_published: Callable[[int, int], None],
        on_error: Callable[[BaseException], None],
    ) -> None:
        self.newest = newest
        self._run = run
        self._spawn = spawn
        self._metrics = metrics
        self._on_published = on_published
        self._on_error = on_error
        self._loading: dict[int, asyncio.Task[None]] = {}
        self._relays = run.relays
        if self._relays is not None:
            self._relays.on_spread = lambda seconds: metrics().spread(seconds)
            self._relays.on_rebuilt = lambda: metrics().rebuilt()

    @property
    def loading(self) -> list[int]:
        """Replicas that load weights, or wait to."""
        return list(self._loading)

    @property
    def served(self) -> Mapping[int, int]:
        """Version that each replica serves."""
        replicas = self._run.replicas
        return {0: self.newest.version} if replicas is None else dict(replicas.versions)

    def version_of(self, replica: int) -> int:
        """Version that a replica serves; the oldest of all where it is not known which it will be."""
        served = self.served
        return served.get(replica, min(served.values(), default=self.newest.version))

    async def begin(self) -> None:
        """Loads into each replica what it served before a restart, or else the newest weights."""
        if self._run.replicas is None:
            return
        await self._push()
        before = self._run.store.get_state(SERVED, {})
        live = self._run.live

        async def load(replica: int) -> None:
            version = int(before.get(str(replica), self.newest.version))
            old = None
            if live is not None and version < self.newest.version:
                old = await asyncio.to_thread(live.load, version)
            await self._load(replica, "wait", old or await self._fetch(replica))

        await asyncio.gather(*(load(replica) for replica in self._run.replicas.versions))

    async def move_on(self, newest: Weights, tell: Callable[[], None]) -> None:
        """Takes newer weights of the trainer; keeps what replicas go on serving.

        Args:
            newest: of the trainer.
            tell: lets the schedule know, which may have replicas load them.
        """
        left, self.newest = self.newest, newest
        # Before they are pushed: no relay may have weights that the schedule has not heard of.
        tell()
        await self._push()
        live = self._run.live
        if live is None or self._run.replicas is None:
            return
        served = self._run.replicas.versions
        if any(v == left.version and r not in self._loading for r, v in served.items()):
            await asyncio.to_thread(live.keep, left)
        await asyncio.to_thread(live.prune, {*self._run.replicas.versions.values(), left.version})

    async def load_all(self) -> None:
        """Has every replica serve the newest weights; what runs there ends."""
        if self._run.replicas is None:
            return
        await self._push()

        async def load(replica: int) -> None:
            await self._load(replica, "abort", await self._fetch(replica))

        await asyncio.gather(*(load(replica) for replica in self._run.replicas.versions))

    async def close(self) -> None:
        """Ends the relays; idempotent."""
        if self._relays is not None:
            await self._relays.close()

    def publish(self, replicas: tuple[int, ...] | None, mode: PublishMode) -> None:
        """Has replicas load the newest weights; None: all of them."""
        for replica in self.served if replicas is None else replicas:
            before = self._loading.get(replica)
            self._loading[replica] = self._spawn(self._load_and_tell(replica, mode, before))

    async def _load_and_tell(
        self, replica: int, mode: PublishMode, before: asyncio.Task[None] | None
    ) -> None:
        if before is not None:
            await asyncio.wait({before})
        try:
            version = await self._load(replica, mode, await self._fetch(replica))
        except EngineError as error:
            if self._run.replicas is None or replica in self._run.replicas.versions:
                self._on_error(error)
            return  # it died meanwhile: the schedule was told
        if self._loading.get(replica) is asyncio.current_task():
            del self._loading[replica]
        self._on_published(version, replica)

    async def _push(self) -> None:
        """Gives the newest weights to the relays; the trainer waits for the first of them alone."""
        if self._relays is not None:
            began = time.perf_counter()
            await self._relays.push(self.newest)
            self._metrics().pushed(time.perf_counter() - began)

    async def _fetch(self, replica: int) -> Weights:
        """The newest weights, from where this replica gets them."""
        if self._relays is None:
            return self.newest
        node = self._relays.node_of(replica)
        return await self._relays.fetch(node, at_least=self.newest.version)

    async def _load(self, replica: int, mode: PublishMode, weights: Weights) -> int:
        """Loads weights into a replica and proves that it serves them."""
        run = self._run
        if run.publisher is not None and run.replicas is not None and weights.references:
            began = time.perf_counter()
            gap = await run.publisher.publish(
                run.replicas.replica(replica),
                weights.tensors,
                weights.version,
                weights.references,
                mode,
            )
            self._metrics().published(time.perf_counter() - began, gap)
            served = {str(number): version for number, version in run.replicas.versions.items()}
            run.store.put_state(SERVED, served)
        return weights.version
