"""What a sweep may take, and what it must leave."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentic_gym.sandbox import records

ABSENT = [4_194_304, 1]  # a pid that no Linux gives


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return records.folder()


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as started:
        yield started
        started.kill()


def rewrite(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_crashed_run_is_swept_and_a_living_one_is_not(
    home: Path, process: subprocess.Popen[bytes]
) -> None:
    work = home / "work-1"
    work.mkdir()
    record = records.Record(process.pid, [work])
    assert records.sweep() == 0
    [path] = home.glob("*.json")
    rewrite(path, owner=ABSENT)
    assert records.sweep() == 1
    assert process.wait(10) < 0
    assert list(home.iterdir()) == []
    record.remove()
    record.remove()


def test_pids_of_another_namespace_prove_nothing(
    home: Path, process: subprocess.Popen[bytes]
) -> None:
    work = home / "work-1"
    work.mkdir()
    record = records.Record(process.pid, [work])
    [path] = home.glob("*.json")
    rewrite(path, place="another", owner=ABSENT)
    assert records.sweep() == 0  # its owner holds the lock
    assert work.exists()
    left = home / "left.json"  # a copy that nobody has locked: of an owner who ended
    left.write_text(path.read_text())
    assert records.sweep() == 1
    assert not work.exists()
    assert not left.exists()
    assert path.exists()
    assert process.poll() is None
    record.remove()


def test_a_record_without_a_place_is_left_alone(home: Path) -> None:
    (home / "old.json").write_text(
        json.dumps({"owner": ABSENT, "process": ABSENT, "folders": [str(home / "work-1")]})
    )
    (home / "work-1").mkdir()
    assert records.sweep() == 0
    assert (home / "work-1").exists()
