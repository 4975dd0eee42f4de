"""A relay: the process on each node that holds the newest weights and hands them on.

``python -m agentic_gym.trainers.relays.node FOLDER HEARTBEAT_S`` reads the secret of the run from a line of
its standard input and prints the port that it listens on. Then it serves two kinds of callers
(:mod:`~agentic_gym.trainers.relays.wire`): one who brings weights, and the one who controls it, whom it
tells that it lives and what it holds, and who has it send weights to other relays. It ends when whoever
controls it goes away, so that no relay outlives its run.

It loads no torch: it starts in a tenth of a second, and to it weights are the bytes of a file.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from agentic_gym.trainers.relays.wire import (
    BROKEN,
    CHUNK,
    CONTROL,
    HOST,
    WEIGHTS,
    Message,
    admit,
    encode,
    read_frame,
    receive_weights,
    send_weights,
)

KEPT = 2
"""Versions that are held: a replica may be reading the last but one when the newest arrives."""

FIRST_CALL_S = 20.0
"""Seconds within which whoever started a relay must have called it."""


def weights_path(folder: Path, version: int) -> Path:
    """Where a relay whose folder this is holds a version that it has received whole."""
    return folder / f"version-{version}.safetensors"


class Node:
    """One relay.

    Args:
        folder: its own; holds nothing yet.
        secret: that callers must know.
        heartbeat_s: seconds between two signs of life.
    """

    def __init__(self, folder: Path, secret: str, heartbeat_s: float) -> None:
        self._folder = folder
        self._secret = secret
        self._heartbeat_s = heartbeat_s
        self._parent = os.getppid()
        self._held: list[int] = []  # ascending
        self._control: asyncio.StreamWriter | None = None
        self._numbers = itertools.count()
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Serves until whoever controls it goes away.

        Raises:
            OSError: weights cannot be written.
        """
        server = await asyncio.start_server(self._serve, HOST, 0, limit=CHUNK)
        print(server.sockets[0].getsockname()[1], flush=True)
        self._spawn(self._beat())
        try:
            await self._over
        finally:
            server.close()

    async def _beat(self) -> None:
        """Signs of life. A child that its parent forked may hold connections open: so look for it, too."""
        for beat in itertools.count():
            uncalled = self._control is None and beat * self._heartbeat_s > FIRST_CALL_S
            if uncalled or os.getppid() != self._parent:
                self._end()
                return
            self._report({})
            await asyncio.sleep(self._heartbeat_s)

    # ---- callers ---------------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            wanted = await admit(reader, writer, self._secret)
            if wanted.get("want") == WEIGHTS:
                await self._receive(reader, int(wanted["version"]), int(wanted["size"]))
            elif wanted.get("want") == CONTROL and self._control is None:
                self._control = writer
                await self._obey(reader)
        except BROKEN as error:
            _log(error)
        except Exception as error:  # of one who knows the secret
            self._end(error)  # a full disk, say: whoever started this sees why
        finally:
            if writer is self._control:
                self._end()
            writer.close()

    async def _obey(self, reader: asyncio.StreamReader) -> None:
        while True:
            order = await read_frame(reader)
            self._spawn(self._send(int(order["send"]), int(order["port"])))

    async def _send(self, version: int, port: int) -> None:
        # What was overtaken meanwhile is deleted: the newest will do, and is what is wanted by now.
        version = version if version in self._held else self._held[-1]
        try:
            with weights_path(self._folder, version).open("rb") as file:
                await send_weights(port, self._secret, version, file)
        except BROKEN as error:
            _log(error)  # the other died: whoever gave the order will notice

    async def _receive(self, reader: asyncio.StreamReader, version: int, size: int) -> None:
        if not self._held or version > self._held[-1]:
            partial = self._folder / f"{next(self._numbers)}.partial"
            try:
                await receive_weights(reader, size, partial)
                self._keep(version, partial)
            finally:
                partial.unlink(missing_ok=True)
        self._report({"holds": self._held[-1]})

    def _keep(self, version: int, partial: Path) -> None:
        if self._held and version <= self._held[-1]:
            return  # it came twice, or newer ones were faster
        os.replace(partial, weights_path(self._folder, version))
        self._held.append(version)
        while len(self._held) > KEPT:
            weights_path(self._folder, self._held.pop(0)).unlink()

    # ---- small things ----------------------------------------------------------------------------

    def _report(self, message: Message) -> None:
        if self._control is not None:
            self._control.write(encode(message))

    def _end(self, error: BaseException | None = None) -> None:
        if self._over.done():
            return
        if error is None:
            self._over.set_result(None)
        else:
            self._over.set_exception(error)

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._end(error)


def _log(error: BaseException) -> None:
    print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)


def main() -> None:
    """Runs one relay."""
    parser = argparse.ArgumentParser(description="A relay of weights; a training run starts it.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("heartbeat_s", type=float)
    options = parser.parse_args()
    secret = sys.stdin.readline().strip()

    async def run() -> None:
        await Node(options.folder, secret, options.heartbeat_s).run()

    asyncio.run(run())


if __name__ == "__main__":
    main()
