"""Relays whose run was killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentic_gym.trainers.publisher import Weights
from agentic_gym.trainers.relays.network import RelayNetwork

pytestmark = pytest.mark.slow

ABANDON = """
import asyncio, os, signal, sys, time
from pathlib import Path
from agentic_gym.trainers.publisher import Weights
from agentic_gym.trainers.relays.network import RelayNetwork

async def main():
    network = RelayNetwork(Path(sys.argv[1]), 2)
    await network.push(Weights(0, {}))
    for node in range(2):
        await network.fetch(node, at_least=0)
    child = os.fork()
    if child == 0:  # holds every connection open, and outlives its parent
        os.close(1)
        time.sleep(60)
        os._exit(0)
    print(child, *network.pids.values(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


def test_relays_end_with_the_run_that_started_them(tmp_path: Path) -> None:
    """Also when it could say nothing, and left a child that holds its connections open."""
    run = [sys.executable, "-W", "ignore", "-c", ABANDON, str(tmp_path / "relays")]
    ended = subprocess.run(run, stdout=subprocess.PIPE, timeout=30)
    assert ended.returncode == -signal.SIGKILL
    child, *pids = (int(word) for word in ended.stdout.split())
    assert len(pids) == 2
    try:
        deadline = time.monotonic() + 5
        while not all(gone(pid) for pid in pids):
            assert time.monotonic() < deadline, "a relay has outlived its run"
            time.sleep(0.02)
    finally:
        os.kill(child, signal.SIGKILL)
    # What they left behind is deleted by the next run.
    left = list((tmp_path / "relays").glob("relay-*"))
    assert left

    async def main() -> None:
        network = RelayNetwork(tmp_path / "relays", 1)
        await network.push(Weights(0, {}))
        assert not any(folder.exists() for folder in left)
        await network.close()

    asyncio.run(main())


def gone(pid: int) -> bool:
    """It runs no more; where nobody collects orphans, a zombie of it stays."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True
