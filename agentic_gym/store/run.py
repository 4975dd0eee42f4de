"""The whole store of a run: the ledger and what is kept beside it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from agentic_gym.store import ledger
from agentic_gym.store.credit import CREDIT_TABLE, TokenCredit, decode_credit, encode_credit
from agentic_gym.store.database import Database, Schema
from agentic_gym.store.records import decode_trajectory, encode_trajectory, from_json, to_json
from agentic_gym.types import Trajectory

FILE_NAME = "run.sqlite"

_TABLES = """
CREATE TABLE checkpoints (version INTEGER PRIMARY KEY, path TEXT NOT NULL);
CREATE TABLE metrics (name TEXT, step INTEGER, value REAL, time REAL, PRIMARY KEY (name, step));
CREATE TABLE evals (name TEXT, position INTEGER, record BLOB, PRIMARY KEY (name, position));
CREATE TABLE state (key TEXT PRIMARY KEY, value BLOB NOT NULL)
"""
SCHEMA = Schema(
    application_id=0x61675F73,  # "ag_s"
    version=2,
    script=f"{ledger.TABLES};{_TABLES}",
    additions=(CREDIT_TABLE,),
)


class RunStore(ledger.Ledger):
    """The store of one run. Safe to share between threads; other processes may read meanwhile.

    Args:
        path: a file ending in ``.sqlite``, or a folder, which means its ``run.sqlite``. Made if missing.
        readonly: open an existing store for reading.

    Raises:
        StoreError: not a run's store, corrupt, locked, or written by another schema version.
    """

    def __init__(self, path: str | os.PathLike[str], *, readonly: bool = False) -> None:
        file = Path(path)
        if file.suffix != ".sqlite":
            file = file / FILE_NAME
        self.path = file
        super().__init__(Database(file, SCHEMA, readonly=readonly))

    def __enter__(self) -> RunStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file; idempotent."""
        self._database.close()

    def transaction(self) -> AbstractContextManager[object]:
        """Keeps what is written within the block together: all of it, or nothing if the block raises."""
        return self._database.write()

    def mark_trained(self, update: int, checkpoint: str | os.PathLike[str] | None = None) -> None:
        """Marks the batch of an update as trained, with its complete checkpoint where one was saved.

        Idempotent.

        Raises:
            StoreError: the update has no recorded batch.
        """
        with self._database.write():
            super().mark_trained(update)
            if checkpoint is not None:
                self.record_checkpoint(update, checkpoint)

    def record_checkpoint(self, version: int, path: str | os.PathLike[str]) -> None:
        """Records a complete checkpoint; a path within the run folder survives moving the folder."""
        home = self.path.parent.absolute()
        full = home / path
        stored = full.relative_to(home) if full.is_relative_to(home) else full
        with self._database.write() as db:
            db.execute("INSERT OR REPLACE INTO checkpoints VALUES (?, ?)", (version, str(stored)))

    def latest_checkpoint(self) -> tuple[int, Path] | None:
        """Version and path of the newest recorded checkpoint that is still on disk, or None."""
        with self._database.read() as db:
            rows = db.execute(
                "SELECT version, path FROM checkpoints ORDER BY version DESC"
            ).fetchall()
        for version, path in rows:
            full = self.path.parent.absolute() / path
            if full.exists():
                return version, full
        return None

    def record_credit(self, credit: Mapping[str, TokenCredit]) -> None:
        """Keeps the credit of trained trajectories by their ids, in place of what was kept before.

        Raises:
            StoreError: the arrays of one differ in length, or are no float32.
        """
        rows = [(name, encode_credit(one)) for name, one in credit.items()]
        with self._database.write() as db:
            db.executemany("INSERT OR REPLACE INTO credit VALUES (?, ?)", rows)

    def credit(self, trajectory_id: str) -> TokenCredit | None:
        """Credit of one trajectory; None if it was not trained, or by a release that kept none."""
        table = "SELECT 1 FROM sqlite_master WHERE name = 'credit'"
        query = "SELECT record FROM credit WHERE trajectory_id = ?"
        with self._database.read() as db:
            if db.execute(table).fetchone() is None:
                return None
            row = db.execute(query, (trajectory_id,)).fetchone()
        return None if row is None else decode_credit(row[0])

    def record_eval(self, name: str, trajectories: Sequence[Trajectory]) -> None:
        """Keeps the trajectories of one evaluation, in place of an earlier one of that name."""
        rows = [(name, position, encode_trajectory(t)) for position, t in enumerate(trajectories)]
        with self._database.write() as db:
            db.execute("DELETE FROM evals WHERE name = ?", (name,))
            db.executemany("INSERT INTO evals VALUES (?, ?, ?)", rows)

    def evals(self) -> list[str]:
        """Names of the evaluations, in the order recorded."""
        with self._database.read() as db:
            rows = db.execute("SELECT name FROM evals GROUP BY name ORDER BY MIN(rowid)").fetchall()
        return [row[0] for row in rows]

    def eval_trajectories(self, name: str) -> list[Trajectory]:
        """Trajectories of one evaluation in the order recorded; empty for an unknown name."""
        with self._database.read() as db:
            rows = db.execute("SELECT record FROM evals WHERE name = ? ORDER BY position", (name,))
            records = [row[0] for row in rows]
        return [decode_trajectory(record) for record in records]

    def log_metrics(self, step: int, values: Mapping[str, float]) -> None:
        """Keeps numbers of one step; logging a step again (after a resume) replaces them."""
        now = time.time()
        rows = [(name, step, float(value), now) for name, value in values.items()]
        with self._database.write() as db:
            db.executemany("INSERT OR REPLACE INTO metrics VALUES (?, ?, ?, ?)", rows)

    def metrics(self, name: str) -> list[tuple[int, float]]:
        """(step, value) of one metric by step; a NaN comes back as NaN."""
        with self._database.read() as db:
            rows = db.execute(
                "SELECT step, value FROM metrics WHERE name = ? ORDER BY step", (name,)
            )
            # SQLite has no NaN: it keeps NULL.
            return [(step, float("nan") if value is None else value) for step, value in rows]

    def metric_names(self) -> list[str]:
        """Names of all metrics, sorted."""
        with self._database.read() as db:
            return [row[0] for row in db.execute("SELECT DISTINCT name FROM metrics ORDER BY name")]

    def put_state(self, key: str, value: Any) -> None:
        """Keeps a JSON-able value under a key, in place of the earlier one."""
        data = to_json(value)
        with self._database.write() as db:
            db.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", (key, data))

    def get_state(self, key: str, default: Any = None) -> Any:
        """The value under a key, or the default."""
        with self._database.read() as db:
            row = db.execute("SELECT value FROM state WHERE key = ?", (key,)).fetchone()
        return default if row is None else from_json(row[0])
