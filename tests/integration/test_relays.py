"""Relays of weights as real processes: killed, hung, attacked and abandoned."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import struct
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from agentic_gym.errors import EngineError
from agentic_gym.trainers.publisher import References, Weights
from agentic_gym.trainers.relays.network import RelayNetwork
from agentic_gym.trainers.relays.wire import (
    CONTROL,
    HOST,
    WEIGHTS,
    calling,
    encode,
    read_frame,
    send_weights,
)

pytestmark = pytest.mark.slow

RELAYS = 3


def made(version: int) -> Weights:
    """Two megabytes that differ from version to version."""
    tensors = {
        "big": torch.arange(500_000.0) + version,
        "half": torch.full((3,), version, dtype=torch.bfloat16),
    }
    return Weights(version, tensors, References(version, ((1,),), ((2, 3),), ((-0.5, -version),)))


def check(found: Weights) -> None:
    """It is, to the bit, what was pushed under this version."""
    expected = made(found.version)
    assert found.references == expected.references
    assert found.tensors.keys() == expected.tensors.keys()
    assert all(torch.equal(found.tensors[name], t) for name, t in expected.tensors.items())


def kill(pid: int) -> None:
    """SIGKILL, unless it has ended already and nobody has noticed yet."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


async def until(reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not reached():
            await asyncio.sleep(0.01)


async def settled(network: RelayNetwork, victim: int, pid: int, version: int) -> None:
    """Another has taken the victim's place, and all hold the version."""
    await until(lambda: network.pids.get(victim, pid) != pid)
    await until(lambda: list(network.versions.values()) == [version] * RELAYS)


async def check_all(network: RelayNetwork, version: int) -> None:
    """Every relay gives out this version."""
    async with asyncio.timeout(10):
        found = await asyncio.gather(
            *(network.fetch(node, at_least=version) for node in range(RELAYS))
        )
    for weights in found:
        assert weights.version == version
        check(weights)


@contextlib.asynccontextmanager
async def relays(folder: Path, **options: Any) -> AsyncIterator[RelayNetwork]:
    network = RelayNetwork(folder / "relays", RELAYS, **{"heartbeat_s": 0.1, **options})
    try:
        yield network
    finally:
        await network.close()


def port_of(network: RelayNetwork, node: int) -> int:
    return network._relays[node].port


def test_whoever_is_killed_everybody_ends_with_the_newest(tmp_path: Path) -> None:
    draw = random.Random(0)

    async def main() -> list[float]:
        spreads: list[float] = []
        # Each that is killed has received weights since its last death, so one death is forgiven.
        async with relays(tmp_path, max_deaths=1) as network:
            network.on_spread = spreads.append
            await network.push(made(0))
            await check_all(network, 0)
            for version in range(1, 10):
                pushing = asyncio.create_task(network.push(made(version)))
                await asyncio.sleep(draw.uniform(0, 0.03))
                victim = network.order[min(version % 3, len(network.order) - 1)]
                pid = network.pids[victim]
                kill(pid)
                await pushing
                await check_all(network, version)
                # It may have had the weights before it died.
                await settled(network, victim, pid, version)
        return spreads

    assert len(asyncio.run(main())) == 10
    assert not (tmp_path / "relays").exists()


def test_all_are_killed_again_and_again_while_weights_are_pushed(tmp_path: Path) -> None:
    draw = random.Random(1)

    async def main() -> None:
        async with relays(tmp_path, max_deaths=100) as network:
            for version in range(8):
                pushing = asyncio.create_task(network.push(made(version)))
                for _ in range(2):
                    await asyncio.sleep(draw.uniform(0, 0.1))
                    for pid in draw.sample(sorted(network.pids.values()), len(network.pids) // 2):
                        kill(pid)
                async with asyncio.timeout(10):
                    await pushing
            await check_all(network, 7)

    asyncio.run(main())


def test_a_push_returns_before_the_last_relay_has_the_weights(tmp_path: Path) -> None:
    async def main() -> None:
        async with relays(tmp_path, hung_s=5.0) as network:
            await network.push(made(0))
            await check_all(network, 0)
            last = network.order[-1]
            spreads: list[float] = []
            network.on_spread = spreads.append
            os.kill(network.pids[last], signal.SIGSTOP)
            async with asyncio.timeout(2):
                await network.push(made(1))
            assert network.versions[network.order[0]] == 1
            assert network.versions.get(last, 0) == 0
            await until(lambda: last not in network.order)
            assert not spreads
            os.kill(network.pids[last], signal.SIGCONT)
            await check_all(network, 1)
            assert len(spreads) == 1

    asyncio.run(main())


@pytest.mark.parametrize("place", [0, 1])
def test_one_that_hangs_is_gone_round_then_started_again(tmp_path: Path, place: int) -> None:
    rebuilt: list[float] = []

    async def main() -> None:
        async with relays(tmp_path, heartbeat_s=0.05, hung_s=0.6) as network:
            await network.push(made(0))
            await check_all(network, 0)
            network.on_rebuilt = lambda: rebuilt.append(time.monotonic())
            victim = network.order[place]
            pid = network.pids[victim]
            os.kill(pid, signal.SIGSTOP)
            began = time.monotonic()
            async with asyncio.timeout(10):
                await network.push(made(1))
                for node in {*range(RELAYS)} - {victim}:
                    check(await network.fetch(node, at_least=1))
            assert victim not in network.order
            assert time.monotonic() - began < 0.6
            await check_all(network, 1)
            assert network.pids[victim] != pid

    asyncio.run(main())
    assert rebuilt


async def refused(port: int, sent: bytes) -> None:
    """The relay cuts off whoever sends this."""
    reader, writer = await asyncio.open_connection(HOST, port)
    await read_frame(reader)
    writer.write(sent)
    with contextlib.suppress(ConnectionError):
        assert await reader.read() == b""
    writer.close()


def test_strangers_are_cut_off_and_harm_nothing(tmp_path: Path) -> None:
    evil = tmp_path / "evil"
    evil.write_bytes(b"x" * 1000)

    async def main() -> None:
        async with relays(tmp_path) as network:
            await network.push(made(0))
            await check_all(network, 0)
            pids, port = dict(network.pids), port_of(network, network.order[0])
            silent = await asyncio.open_connection(HOST, port)
            wanted = {"want": WEIGHTS, "version": 99, "size": 1000}
            for sent in (
                b"GET / HTTP/1.1\r\n\r\n",
                struct.pack("!I", 1 << 31),
                struct.pack("!I", 4) + b"\xff\xfe{{",
                struct.pack("!I", 4) + b"[[]]",
                struct.pack("!I", 60_000) + b"[" * 60_000,
                encode(wanted) + evil.read_bytes(),
                encode({**wanted, "answer": None}),
                encode({**wanted, "answer": "é" * 64}),
                encode({**wanted, "answer": "\ud800"}),
            ):
                await refused(port, sent)
            with contextlib.suppress(ConnectionError), evil.open("rb") as file:
                await send_weights(port, "wrong", 99, file)
            async with calling(port, "wrong", {"want": CONTROL}) as (reader, _):
                with contextlib.suppress(ConnectionError):
                    assert await reader.read() == b""
            # An answer that was overheard serves no second time: each caller gets a nonce of its own.
            first = await asyncio.open_connection(HOST, port)
            second = await asyncio.open_connection(HOST, port)
            assert await read_frame(first[0]) != await read_frame(second[0])
            assert set(network.versions.values()) == {0}
            await network.push(made(1))
            await check_all(network, 1)
            assert network.pids == pids
            for _, writer in (silent, first, second):
                writer.close()

    asyncio.run(main())


WANTED = {"want": WEIGHTS, "version": 5, "size": 1000}


def held(folder: Path) -> set[int]:
    """Versions whose files a relay has; nothing else is there."""
    files = {path.name for path in folder.iterdir()} - {"errors.txt"}
    versions = {int(name.removeprefix("version-").removesuffix(".safetensors")) for name in files}
    assert len(files) == len(versions)
    return versions


def test_half_of_a_file_is_never_given_out(tmp_path: Path) -> None:
    async def main() -> None:
        async with relays(tmp_path) as network:
            await network.push(made(0))
            await check_all(network, 0)
            master = network.order[0]
            async with calling(port_of(network, master), network._secret, WANTED) as (_, writer):
                writer.write(b"x" * 999)
                await writer.drain()
            folder = network._relays[master].path(0).parent
            for version in (1, 2):
                await network.push(made(version))
                await check_all(network, version)
                assert held(folder) == {version - 1, version}

    asyncio.run(main())


def test_what_comes_twice_at_once_is_kept_once(tmp_path: Path) -> None:
    async def main() -> None:
        async with relays(tmp_path) as network:
            await network.push(made(0))
            await check_all(network, 0)
            node = network.order[-1]
            call = calling(port_of(network, node), network._secret, WANTED)
            again = calling(port_of(network, node), network._secret, WANTED)
            async with call as (first, to_first), again as (second, to_second):
                for writer in (to_first, to_second):
                    writer.write(b"x" * 500)
                    await writer.drain()
                await asyncio.sleep(0.05)  # both have begun
                for writer in (to_first, to_second):
                    writer.write(b"x" * 500)
                await asyncio.gather(first.read(), second.read())
            await network.push(made(6))
            await check_all(network, 6)
            folder = network._relays[node].path(6).parent
            assert held(folder) == {5, 6}

    asyncio.run(main())


def test_what_is_older_changes_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with relays(tmp_path) as network:
            for version in (2, 3, 4):
                await network.push(made(version))
                await check_all(network, version)
            await network.push(made(3))
            await check_all(network, 4)
            pids, (first, second, _) = dict(network.pids), network.order
            # An order that comes late: what it names is deleted, and the other has the newest.
            network._relays[first].send(2, port_of(network, second))
            await network.push(made(5))
            await check_all(network, 5)
            assert network.pids == pids

    asyncio.run(main())


def test_a_relay_that_cannot_write_says_so_and_is_replaced(tmp_path: Path) -> None:
    async def break_one(network: RelayNetwork) -> int:
        await network.push(made(0))
        await check_all(network, 0)
        node = network.order[1]
        # Its next file cannot be opened.
        (network._relays[node].path(0).parent / "1.partial").mkdir()
        return node

    async def replaced() -> None:
        async with relays(tmp_path) as network:
            await break_one(network)
            await network.push(made(1))
            await check_all(network, 1)

    async def given_up() -> None:
        async with relays(tmp_path, max_deaths=0) as network:
            node = await break_one(network)
            await network.push(made(1))
            await network.fetch(node, at_least=1)

    asyncio.run(replaced())
    with pytest.raises(
        EngineError, match=r"(?s)relay \d has ended 1 time.*exit status 1\n.*1\.par"
    ):
        asyncio.run(given_up())


def test_a_relay_that_dies_again_and_again_ends_the_run(tmp_path: Path) -> None:
    async def main() -> None:
        async with relays(tmp_path, max_deaths=2) as network:
            pushing = asyncio.create_task(network.push(made(0)))
            while not pushing.done():
                for pid in network.pids.values():
                    kill(pid)
                await asyncio.sleep(0)
            await pushing

    with pytest.raises(EngineError, match=r"has ended 3 time.*within 60 s .*exit status -9"):
        asyncio.run(main())


def test_whoever_waits_hears_that_the_relays_are_closed(tmp_path: Path) -> None:
    async def main() -> None:
        async with relays(tmp_path) as network:
            await network.push(made(0))
            waiting = asyncio.create_task(network.fetch(0, at_least=1))
            await asyncio.sleep(0)
            pids = list(network.pids.values())
            await network.close()
            with pytest.raises(EngineError, match="closed"):
                await waiting
            for pid in pids:
                with pytest.raises(ProcessLookupError):
                    os.kill(pid, 0)
            await network.push(made(1))  # and they start again
            await check_all(network, 1)

    asyncio.run(main())
