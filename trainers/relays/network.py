"""Weight relays that really run: processes on this machine, and the chain that new weights go down.

:class:`~agentic_gym.trainers.schedules.relay_chain.RelayChain` decides who sends what to whom; here it is
carried out. A relay whose process has ended is found at once, one that hangs by its heartbeats; both are
started again and join the chain at its end. Weights are files: the trainer writes one, the master gets it
over TCP, each relay passes on what it holds whole, and a replica reads the file of its own relay. Sending
first chunks on while the last are still coming was left out: on one machine all copies go through the
same memory, and nothing would come sooner.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import shutil
import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentic_gym.errors import ConfigError, EngineError
from agentic_gym.trainers.publisher import Weights
from agentic_gym.trainers.relays.node import weights_path
from agentic_gym.trainers.relays.process import PREFIX, RelayProcess, running
from agentic_gym.trainers.relays.wire import BROKEN, Message, send_weights
from agentic_gym.trainers.schedules.relay_chain import (
    NOTHING,
    TRAINER,
    ChainEvent,
    Clock,
    Heartbeat,
    NodeJoined,
    NodeLeft,
    Pushed,
    Rebuilt,
    Received,
    RelayChain,
    Send,
)
from agentic_gym.trainers.weights_file import read_weights, write_weights

MISSED = 4
"""Heartbeats in a row that may be missing before the chain goes round a relay."""

FORGIVEN_S = 60.0
"""Deaths of a relay that lie further back count no more."""


class RelayNetwork:
    """Relays 0 to ``relays - 1``, started by the first :meth:`push`. All methods run on one event loop.

    Args:
        folder: for files of weights. The trainer's newest is there, and of each relay the two newest that
            it has received, beside what it is being sent. What an earlier run left there is deleted.
        relays: so many.
        heartbeat_s: seconds between two signs of life of a relay.
        hung_s: seconds without one after which a relay's process is killed, to be started again.
        max_deaths: of a relay within a minute, none of them after it had received weights, with which the
            run goes on.

    Attributes:
        on_spread: told how many seconds after a push its weights had reached all relays.
        on_rebuilt: told that the chain goes round a relay that was lost.

    Raises:
        ConfigError: a number is out of range.
    """

    def __init__(
        self,
        folder: Path,
        relays: int,
        *,
        heartbeat_s: float = 0.5,
        hung_s: float = 10.0,
        max_deaths: int = 5,
    ) -> None:
        if not (relays > 0 and max_deaths >= 0 and 0 < heartbeat_s * MISSED <= hung_s):
            raise ConfigError(
                f"relays={relays} must be positive, max_deaths={max_deaths} not negative, and "
                f"hung_s={hung_s:g} at least {MISSED} times heartbeat_s={heartbeat_s:g}"
            )
        self._folder = folder
        self._num_relays = relays
        self._heartbeat_s = heartbeat_s
        self._hung_s = hung_s
        self._max_deaths = max_deaths
        self.on_spread: Callable[[float], None] = lambda seconds: None
        self.on_rebuilt: Callable[[], None] = lambda: None
        self._forget()

    def _forget(self) -> None:
        self._secret = secrets.token_hex(32)
        self._chain = RelayChain(interval_seconds=self._heartbeat_s, missed=MISSED)
        self._relays: dict[int, RelayProcess] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._newest = NOTHING
        self._pushed_at: float | None = None  # until all relays hold it
        self._failure: BaseException | None = None
        self._changed = asyncio.Event()

    # ---- what there is ---------------------------------------------------------------------------

    def node_of(self, replica: int) -> int:
        """Relay that a replica loads from."""
        return replica % self._num_relays

    @property
    def order(self) -> Sequence[int]:
        """Relays that live, the master first."""
        return self._chain.order

    @property
    def versions(self) -> Mapping[int, int]:
        """Version that each living relay holds."""
        return self._chain.versions

    @property
    def pids(self) -> Mapping[int, int]:
        """Process of each relay that runs."""
        return {node: relay.pid for node, relay in self._relays.items()}

    # ---- what the trainer and the replicas do ----------------------------------------------------

    async def push(self, weights: Weights) -> None:
        """Gives new weights out; returns when the master holds them. What is older changes nothing.

        Raises:
            EngineError: a relay dies again and again.
        """
        await self._start()
        if weights.version > self._newest:
            began = time.monotonic()
            await asyncio.to_thread(write_weights, self._own(weights.version), weights)
            before, self._newest, self._pushed_at = self._newest, weights.version, began
            self._handle(Pushed(weights.version))
            # Whoever is being sent the one before has it open.
            await asyncio.to_thread(self._own(before).unlink, missing_ok=True)
        while not self._master_holds(weights.version):
            await self._change()

    async def fetch(self, node: int, *, at_least: int) -> Weights:
        """Weights from the relay of a node, once it holds this version or a newer one.

        Raises:
            EngineError: a relay dies again and again.
            CheckpointError: the relay's file is damaged.
        """
        while True:
            changed = self._changed
            relay, version = self._relays.get(node), self._chain.versions.get(node, NOTHING)
            if relay is not None and version >= at_least:
                weights = await asyncio.to_thread(read_weights, relay.path(version), version)
                if weights is not None:
                    return weights  # or else newer ones have come meanwhile, or the relay has died
            await self._change(changed)

    async def close(self) -> None:
        """Ends the relays and deletes their files; idempotent. A push starts them again."""
        if not self._tasks:
            return
        self._fail(EngineError("the relays were closed"))  # for whoever still waits
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.to_thread(_clear, self._folder)
        self._forget()

    # ---- relays ----------------------------------------------------------------------------------

    async def _start(self) -> None:
        if self._tasks:
            return
        self._spawn(self._watch())
        await asyncio.to_thread(_clear, self._folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        for node in range(self._num_relays):
            self._spawn(self._keep(node))

    async def _keep(self, node: int) -> None:
        """Runs a relay, and again when it has ended.

        Raises:
            EngineError: it ends again and again.
        """
        deaths: deque[float] = deque()
        while True:
            try:
                async with running(node, self._folder, self._secret, self._heartbeat_s) as relay:
                    self._relays[node] = relay
                    self._handle(Clock(time.monotonic()))
                    self._handle(NodeJoined(node))
                    async for report in relay.reports():
                        if self._hear(node, report):
                            deaths.clear()
            except (OSError, *BROKEN) as error:
                ended = error
            finally:
                self._relays.pop(node, None)
            self._handle(NodeLeft(node))
            now = time.monotonic()
            deaths.append(now)
            while deaths[0] < now - FORGIVEN_S:
                deaths.popleft()
            if len(deaths) > self._max_deaths:
                raise EngineError(
                    f"relay {node} has ended {len(deaths)} time(s) within {FORGIVEN_S:g} s without "
                    f"receiving weights; the last time: {ended}"
                ) from ended
            await asyncio.sleep(0.1 * (len(deaths) - 1))

    def _hear(self, node: int, report: Message) -> bool:
        """Passes a report on; whether it has received weights."""
        self._handle(Heartbeat(node, time.monotonic()))
        if "holds" not in report:
            return False
        self._handle(Received(node, int(report["holds"])))
        return True

    async def _watch(self) -> None:
        """Lets the chain find the dead, and ends what hangs."""
        last = time.monotonic()
        while True:
            await asyncio.sleep(self._heartbeat_s)
            now = time.monotonic()
            self._handle(Clock(now))
            for relay in self._relays.values():
                if now - last > self._hung_s / 2:
                    relay.heard = now  # it was this process that slept
                elif now - relay.heard > self._hung_s:
                    relay.kill()
            last = now

    # ---- the chain -------------------------------------------------------------------------------

    def _handle(self, event: ChainEvent) -> None:
        before = len(self._chain.order)
        for action in self._chain.handle(event):
            match action:
                case Send(source, destination, version):
                    self._send(source, destination, version)
                case Rebuilt(order):
                    if len(order) < before:
                        self.on_rebuilt()
        held = self._chain.versions
        if (
            self._pushed_at is not None
            and len(held) == self._num_relays
            and min(held.values()) >= self._newest
        ):
            self.on_spread(time.monotonic() - self._pushed_at)
            self._pushed_at = None
        self._wake()

    def _send(self, source: int, destination: int, version: int) -> None:
        target = self._relays.get(destination)
        if target is None:
            return  # it has just ended: the chain hears of it next
        if source == TRAINER:
            self._spawn(self._send_own(target.port))
        elif (relay := self._relays.get(source)) is not None:
            relay.send(version, target.port)

    async def _send_own(self, port: int) -> None:
        version = self._newest
        with contextlib.suppress(*BROKEN), self._own(version).open("rb") as file:
            await send_weights(port, self._secret, version, file)

    def _master_holds(self, version: int) -> bool:
        master = self._chain.master
        return master is not None and self._chain.versions[master] >= version

    # ---- small things ----------------------------------------------------------------------------

    def _own(self, version: int) -> Path:
        return weights_path(self._folder / "trainer", version)

    async def _change(self, changed: asyncio.Event | None = None) -> None:
        if self._failure is not None:
            raise EngineError(str(self._failure) or repr(self._failure)) from self._failure
        await (changed or self._changed).wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self._failure = error
        self._wake()


def _clear(folder: Path) -> None:
    for left in (*folder.glob(f"{PREFIX}*"), folder / "trainer"):
        shutil.rmtree(left, ignore_errors=True)
    with contextlib.suppress(OSError):
        folder.rmdir()  # unless somebody keeps something there
