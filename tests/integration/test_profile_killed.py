"""``agentic-gym tasks profile`` under SIGKILL: it goes on, and plays no episode twice."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentic_gym.envs.swe.pocket import load_tasks
from agentic_gym.envs.swe.task import write_tasks
from agentic_gym.envs.swe.task_commands import TASKS
from agentic_gym.errors import StoreError
from agentic_gym.store import RunStore
from agentic_gym.trainers.selection import TaskFacts, make_selector

pytestmark = pytest.mark.slow

COMMAND = Path(sys.executable).with_name("agentic-gym")


def finished(folder: Path) -> dict[str, float]:
    """When each episode was played, told by how long it took; empty while there is no store."""
    try:
        with RunStore(folder, readonly=True) as store:
            return {t.trajectory_id: t.metrics["duration_s"] for t in store.finished()}
    except StoreError:
        return {}


def test_a_killed_profile_goes_on_and_plays_nothing_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = load_tasks("pocket", "dev")[:3]
    write_tasks(tasks, tmp_path / "set.jsonl")
    out = tmp_path / "out"
    words = [
        "profile", "--agent", "noop", "--tasks", str(tmp_path / "set.jsonl"), "--split", "dev",
        "--samples", "3", "--concurrency", "1", "--sandboxes", "1", "--output-dir", str(out),
    ]  # fmt: skip
    command = [str(COMMAND), "tasks", *words]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not finished(out) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    process.kill()
    assert process.wait() == -signal.SIGKILL, "it ended before it could be killed"
    before = finished(out)
    assert 1 <= len(before) < 9
    assert not (out / "profile.json").exists()

    assert TASKS.run([*words, "--resume"]) == 0
    after = finished(out)
    assert len(after) == 9
    assert before.items() <= after.items()
    with RunStore(out, readonly=True) as store:
        counts = store.check_conservation()
    assert (counts.launches, counts.buffered, counts.refused) == (9, 9, 0)
    profile = json.loads((out / "profile.json").read_text())
    assert {name: tries["total"] for name, tries in profile["tasks"].items()} == {
        task.task_id: 3 for task in tasks
    }
    assert "0 of 3 tasks lie between 0.2 and 0.8" in capsys.readouterr().out  # noop never solves
    facts = [TaskFacts(task.task_id) for task in tasks]
    selector = make_selector("band", facts, profile=str(out / "profile.json"))
    assert selector.metrics()["selection_posterior_mean"] < 0.15
