"""One relay, as whoever started it sees it: a process to give orders to and to hear reports of."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from pathlib import Path

from agentic_gym.errors import EngineError
from agentic_gym.trainers.relays.node import weights_path
from agentic_gym.trainers.relays.wire import BROKEN, CONTROL, Message, calling, encode, read_frame

PREFIX = "relay-"
"""How the folder of a relay begins."""

_MODULE = "agentic_gym.trainers.relays.node"
_START_S = 30.0
_END_S = 2.0
_ERRORS = "errors.txt"


class RelayProcess:
    """A relay that runs; :func:`running` makes it.

    Attributes:
        port: that it listens on.
        heard: when it last gave a sign of life, on ``time.monotonic``.
    """

    def __init__(
        self,
        process: Process,
        folder: Path,
        port: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.port = port
        self.heard = time.monotonic()
        self._process = process
        self._folder = folder
        self._reader = reader
        self._writer = writer

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def path(self, version: int) -> Path:
        """File of a version that it holds."""
        return weights_path(self._folder, version)

    def send(self, version: int, port: int) -> None:
        """Has it send weights to the relay that listens on this port."""
        self._writer.write(encode({"send": version, "port": port}))

    def kill(self) -> None:
        """Ends it, whatever it does."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def reports(self) -> AsyncIterator[Message]:
        """What it says, while it lives.

        Raises:
            EngineError: it has ended; says how.
        """
        with contextlib.suppress(*BROKEN):
            while True:
                report = await read_frame(self._reader)
                self.heard = time.monotonic()
                yield report
        raise await _ended(self._process, self._folder)


@contextlib.asynccontextmanager
async def running(
    node: int, parent: Path, secret: str, heartbeat_s: float
) -> AsyncIterator[RelayProcess]:
    """Starts a relay in a new folder; ends it and deletes the folder afterwards.

    Args:
        node: its number.
        parent: of the folder.
        secret: that callers of the relay must know.
        heartbeat_s: seconds between two signs of life.

    Raises:
        EngineError: it does not start; says why.
    """
    # A new one each time: a relay that was thought dead must not write among the files of the next.
    folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix=f"{PREFIX}{node}-", dir=parent))
    process = None
    try:
        with (folder / _ERRORS).open("wb") as errors:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", _MODULE, str(folder), str(heartbeat_s)),
                stdin=PIPE,
                stdout=PIPE,
                stderr=errors,
                start_new_session=True,  # Ctrl-C is for the trainer, which ends its relays
            )
        port = await _port(process, folder, secret)
        async with calling(port, secret, {"want": CONTROL}) as (reader, writer):
            yield RelayProcess(process, folder, port, reader, writer)
    finally:
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            assert process.stdin is not None
            process.stdin.close()
            await process.communicate()
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


async def _port(process: Process, folder: Path, secret: str) -> int:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(f"{secret}\n".encode())
        await process.stdin.drain()
        async with asyncio.timeout(_START_S):
            return int(await process.stdout.readline())
    except (ConnectionError, TimeoutError, ValueError):
        raise await _ended(process, folder) from None


async def _ended(process: Process, folder: Path) -> EngineError:
    with contextlib.suppress(TimeoutError, ProcessLookupError):
        async with asyncio.timeout(_END_S):
            await process.wait()
    if process.returncode is None:
        return EngineError("it answers no more, and its process is still there")
    errors = await asyncio.to_thread((folder / _ERRORS).read_text, errors="replace")
    said = errors.strip().splitlines()[-3:]
    return EngineError(
        f"exit status {process.returncode}" + "".join(f"\n  {line}" for line in said)
    )
