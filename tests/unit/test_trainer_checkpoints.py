from __future__ import annotations

from pathlib import Path

import pytest

from agentic_gym.errors import CheckpointError
from agentic_gym.trainers import checkpoints


def save(parent: Path, version: int, text: str = "whole", keep: int | None = None) -> Path:
    folder = checkpoints.stage(parent) / f"checkpoint-{version}"
    folder.mkdir()
    (folder / "data").write_text(text)
    return checkpoints.commit(folder, keep=keep)


def test_the_newest_is_by_version_not_by_name_or_time(tmp_path: Path) -> None:
    for version in (9, 10, 2):
        save(tmp_path, version)
    newest = checkpoints.newest(tmp_path)
    assert newest is not None
    assert checkpoints.version_of(newest) == 10


def test_a_write_that_was_cut_short_leaves_the_old_ones_alone(tmp_path: Path) -> None:
    save(tmp_path, 1, keep=1)
    (checkpoints.stage(tmp_path) / "checkpoint-2").mkdir()  # and then the process was killed
    assert [path.name for path in checkpoints.list_checkpoints(tmp_path)] == ["checkpoint-1"]
    save(tmp_path, 3, keep=1)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint-3"]


def test_a_version_written_again_replaces_the_old_one(tmp_path: Path) -> None:
    save(tmp_path, 1, "old")
    path = save(tmp_path, 1, "new")
    assert (path / "data").read_text() == "new"


def test_the_new_checkpoint_stays_even_if_older_versions_are_higher(tmp_path: Path) -> None:
    """A run resumed by hand from an older checkpoint writes lower versions."""
    for version in (7, 8):
        save(tmp_path, version)
    save(tmp_path, 3, keep=1)
    assert [path.name for path in checkpoints.list_checkpoints(tmp_path)] == ["checkpoint-3"]


def test_what_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    (tmp_path / "checkpoint-x").mkdir()
    assert checkpoints.list_checkpoints(tmp_path) == []
    assert checkpoints.newest(tmp_path / "nowhere") is None
    with pytest.raises(CheckpointError, match="is no checkpoint"):
        checkpoints.version_of(tmp_path / "checkpoint-x")
