"""How relays talk: frames of JSON over TCP, and weights as the bytes of their file.

Whoever accepts a connection sends a nonce first; the caller must answer with its HMAC under the secret of
the run, together with what it wants. The secret itself is never sent. Whoever cannot answer is cut off
before anything else that it sends is looked at. Nothing here encrypts: across machines the connections
belong into a private network.

A frame is a length (4 bytes, big-endian) and so many bytes of UTF-8 JSON, always an object. Weights follow
the frame that announces their size, unframed, so that the kernel can copy them (``sendfile``).
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
import os
import secrets
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, BinaryIO

from agentic_gym.errors import EngineError

Message = dict[str, Any]

HOST = "127.0.0.1"
CONTROL, WEIGHTS = "control", "weights"
"""What a caller wants: to give orders and hear reports, or to hand over weights."""

MAX_FRAME = 1 << 16
CHUNK = 1 << 20
ANSWER_S = 10.0
"""Seconds within which a caller must have shown that it knows the secret."""

BROKEN = (EngineError, ConnectionError, TimeoutError, asyncio.IncompleteReadError)
"""What ends a connection and nothing else."""


def encode(message: Message) -> bytes:
    """One frame."""
    body = json.dumps(message).encode()
    return struct.pack("!I", len(body)) + body


async def read_frame(reader: asyncio.StreamReader) -> Message:
    """The next message.

    Raises:
        EngineError: it is none.
        asyncio.IncompleteReadError: the connection has ended.
    """
    (size,) = struct.unpack("!I", await reader.readexactly(4))
    if size > MAX_FRAME:
        raise EngineError(f"a frame of {size} bytes is longer than {MAX_FRAME}")
    body = await reader.readexactly(size)
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise EngineError(f"a frame holds no JSON: {error}") from error
    if not isinstance(message, dict):
        raise EngineError(f"a frame holds a {type(message).__name__}, not an object")
    return message


async def admit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, secret: str) -> Message:
    """Has a caller prove that it knows the secret.

    Returns:
        What it wants.

    Raises:
        EngineError: it does not know it.
        TimeoutError: it did not answer in time.
    """
    nonce = secrets.token_hex(16)
    writer.write(encode({"nonce": nonce}))
    async with asyncio.timeout(ANSWER_S):
        message = await read_frame(reader)
    answer = str(message.pop("answer", "")).encode(errors="replace")
    if not hmac.compare_digest(answer, _answer(secret, nonce).encode()):
        raise EngineError("a caller does not know the secret of this run")
    return message


@contextlib.asynccontextmanager
async def calling(
    port: int, secret: str, message: Message
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection to a relay, which has been told what is wanted.

    Raises:
        OSError: nobody answers there.
        EngineError: whoever answers is no relay.
        asyncio.IncompleteReadError: the relay has ended.
    """
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        async with asyncio.timeout(ANSWER_S):
            nonce = str((await read_frame(reader)).get("nonce"))
        writer.write(encode({**message, "answer": _answer(secret, nonce)}))
        await writer.drain()
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def send_weights(port: int, secret: str, version: int, file: BinaryIO) -> None:
    """Hands a file of weights to a relay; returns when the relay has read all of it.

    Raises:
        OSError: the relay is gone, or the file cannot be read.
        EngineError: whoever answers is no relay.
        asyncio.IncompleteReadError: the relay has ended.
    """
    size = os.fstat(file.fileno()).st_size
    wanted = {"want": WEIGHTS, "version": version, "size": size}
    async with calling(port, secret, wanted) as (reader, writer):
        if size:
            await asyncio.get_running_loop().sendfile(writer.transport, file)
        await reader.read()  # it says nothing, and closes when it has all, or wants no more


async def receive_weights(reader: asyncio.StreamReader, size: int, path: Path) -> None:
    """Writes so many bytes of a connection into a file.

    Raises:
        EngineError: the connection ended before.
        OSError: the file cannot be written.
    """
    with path.open("wb") as file:
        left = size
        while left:
            chunk = await reader.read(min(left, CHUNK))
            if not chunk:
                raise EngineError(f"{left} of {size} bytes of weights never came")
            # In a thread: a disk that makes writers wait must not stop the heartbeats.
            await asyncio.to_thread(file.write, chunk)
            left -= len(chunk)


def _answer(secret: str, nonce: str) -> str:
    return hmac.new(secret.encode(), nonce.encode(), hashlib.sha256).hexdigest()
