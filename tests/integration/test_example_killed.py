"""The whole product under SIGKILL: pipeline, sandboxes, grading, engine and LoRA, killed and resumed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentic_gym.errors import StoreError
from agentic_gym.store import RunStore

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).parents[2] / "examples" / "train_swe.py"
FLAGS = ["--smoke", "--seed", "5", "--ppo.lora-rank", "4"]


def begin(folder: Path) -> subprocess.Popen[bytes]:
    resume = ["--resume"] if folder.exists() else []
    command = [sys.executable, str(SCRIPT), *FLAGS, "--output-dir", str(folder), *resume]
    return subprocess.Popen(
        command, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


def finish(folder: Path) -> None:
    _, errors = (process := begin(folder)).communicate(timeout=240)
    assert process.returncode == 0, errors.decode()[-2000:]


def kill_when(folder: Path, reached: Callable[[RunStore], bool]) -> None:
    """Starts or resumes the run, and kills it once its store shows that a point is reached."""
    process = begin(folder)
    try:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and process.poll() is None:
            try:
                with RunStore(folder, readonly=True) as store:
                    if reached(store):
                        break
            except StoreError:
                pass  # not made yet
            time.sleep(0.02)
        assert process.poll() is None, "the run ended before it could be killed"
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert process.returncode == -signal.SIGKILL


def trained(folder: Path) -> list[list[tuple[Any, ...]]]:
    """What each update trained, by task and seed; tokens may differ in what rounding decides."""
    with RunStore(folder, readonly=True) as store:
        counts = store.check_conservation()
        assert counts.in_flight == counts.buffered == 0
        batches = store.batches_after(0)
        return [
            sorted((t.task_id, t.seed, t.group_id) for t in store.trajectories(names))
            for _, names in batches
        ]


def evaluated(folder: Path) -> dict[str, int]:
    with RunStore(folder, readonly=True) as store:
        return {name: len(store.eval_trajectories(name)) for name in store.evals()}


def test_a_run_killed_in_every_phase_ends_as_an_unkilled_one(tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    finish(whole)
    kill_when(killed, lambda store: any(name.startswith("before/") for name in store.evals()))
    kill_when(killed, lambda store: store.counts().in_flight > 0)
    kill_when(killed, lambda store: len(store.metrics("policy_loss")) == 1)
    kill_when(killed, lambda store: any(name.startswith("after/") for name in store.evals()))
    finish(killed)
    assert trained(killed) == trained(whole)
    assert evaluated(killed) == evaluated(whole)
    with RunStore(killed, readonly=True) as store:
        assert [step for step, _ in store.metrics("policy_loss")] == [1, 2]
    assert (killed / "checkpoints" / "checkpoint-2" / "adapter").is_dir()
