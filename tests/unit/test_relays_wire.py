"""Frames, the proof of the secret, and files of weights, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from agentic_gym.errors import EngineError
from agentic_gym.trainers.relays.wire import (
    HOST,
    MAX_FRAME,
    WEIGHTS,
    Message,
    admit,
    calling,
    encode,
    read_frame,
    receive_weights,
    send_weights,
)

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def parse(*parts: bytes) -> Message:
    """The first message of a stream that ends after these parts."""

    async def main() -> Message:
        reader = asyncio.StreamReader()
        for part in parts:
            reader.feed_data(part)
        reader.feed_eof()
        return await read_frame(reader)

    return asyncio.run(main())


@contextlib.asynccontextmanager
async def serving(serve: Serve) -> AsyncIterator[int]:
    """A server's port."""

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(one, HOST, 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


def test_a_message_comes_back_whatever_the_pieces() -> None:
    message = {"send": 3, "text": "é\n\0"}
    frame = encode(message)
    assert parse(*(frame[i : i + 1] for i in range(len(frame)))) == message
    assert parse(frame + encode({"next": 1})) == message


@pytest.mark.parametrize(
    ("sent", "complaint"),
    [
        (struct.pack("!I", MAX_FRAME + 1), "is longer than"),
        (b"GET / HTTP/1.1\r\n\r\n", "is longer than"),
        (struct.pack("!I", 2) + b"{]", "holds no JSON"),
        (struct.pack("!I", 2) + b"\xff\xff", "holds no JSON"),
        (struct.pack("!I", 0), "holds no JSON"),
        (struct.pack("!I", 60_000) + b"[" * 60_000, "holds no JSON"),
        (struct.pack("!I", 2) + b"12", "a int, not an object"),
    ],
)
def test_what_is_no_message_is_refused(sent: bytes, complaint: str) -> None:
    with pytest.raises(EngineError, match=complaint):
        parse(sent)


@pytest.mark.parametrize("length", [0, 3, 4, 9])
def test_half_a_frame_is_an_end(length: int) -> None:
    with pytest.raises(asyncio.IncompleteReadError):
        parse(encode({"send": 3})[:length])


@pytest.mark.parametrize("secret", ["right", "wrong", ""])
def test_a_caller_proves_that_it_knows_the_secret(secret: str) -> None:
    said: list[Message | EngineError] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            said.append(await admit(reader, writer, "right"))
        except EngineError as error:
            said.append(error)

    async def main() -> None:
        async with (
            serving(serve) as port,
            calling(port, secret, {"want": "x"}) as (reader, _),
        ):
            assert await reader.read() == b""

    asyncio.run(main())
    if secret == "right":
        assert said == [{"want": "x"}]
    else:
        assert isinstance(said[0], EngineError)


def test_a_file_arrives_as_it_is(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(bytes(range(256)) * 12_345)
    said: list[Message] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said.append(await admit(reader, writer, "s"))
        await receive_weights(reader, said[0]["size"], tmp_path / "copy")

    async def main() -> None:
        async with serving(serve) as port:
            with source.open("rb") as file:
                await send_weights(port, "s", 7, file)

    asyncio.run(main())
    assert said == [{"want": WEIGHTS, "version": 7, "size": source.stat().st_size}]
    assert (tmp_path / "copy").read_bytes() == source.read_bytes()


def test_a_file_that_ends_early_is_an_error(tmp_path: Path) -> None:
    async def main() -> None:
        reader = asyncio.StreamReader()
        reader.feed_data(b"x" * 9)
        reader.feed_eof()
        await receive_weights(reader, 10, tmp_path / "copy")

    with pytest.raises(EngineError, match="1 of 10 bytes of weights never came"):
        asyncio.run(main())
