"""The file of a store: where it is, what is refused, after closing."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from agentic_gym.errors import StoreError
from agentic_gym.store import RunStore


def test_paths_name_the_file_or_its_folder(tmp_path: Path) -> None:
    with RunStore(tmp_path / "deep" / "run.v1") as store:
        assert store.path == tmp_path / "deep" / "run.v1" / "run.sqlite"
    with RunStore(tmp_path / "other.sqlite") as store:
        assert store.path == tmp_path / "other.sqlite"


def test_foreign_damaged_and_missing_files_are_refused_unchanged(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.sqlite"
    with sqlite3.connect(foreign) as db:
        db.execute("CREATE TABLE t (x)")
    db.close()
    garbage = tmp_path / "garbage.sqlite"
    garbage.write_bytes(b"not a database at all" * 100)
    for path, message in ((foreign, "not the store of a run"), (garbage, "corrupt")):
        before = path.read_bytes()
        with pytest.raises(StoreError, match=message):
            RunStore(path)
        assert path.read_bytes() == before
    with pytest.raises(StoreError, match="there is no store"):
        RunStore(tmp_path / "none", readonly=True)
    assert not (tmp_path / "none").exists()
    with pytest.raises(StoreError, match="cannot be made"):
        RunStore(garbage / "below")


@pytest.mark.parametrize(("version", "age"), [(99, "a newer"), (0, "an older")])
def test_other_schema_versions_are_refused(tmp_path: Path, version: int, age: str) -> None:
    RunStore(tmp_path).close()
    with sqlite3.connect(tmp_path / "run.sqlite") as db:
        db.execute(f"PRAGMA user_version={version}")
    db.close()
    with pytest.raises(StoreError, match=f"{age} agentic-gym"):
        RunStore(tmp_path)


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    store.close()
    store.close()
    with pytest.raises(StoreError, match="was closed"):
        store.counts()
