"""One SQLite file in WAL mode: opened, checked and written to in whole transactions.

Safe to share between threads (one connection behind one lock) and to read from other processes while it
is written. Every failure of SQLite becomes a :class:`~agentic_gym.errors.StoreError`.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agentic_gym.errors import StoreError

_BUSY_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Schema:
    """What a file must look like.

    Attributes:
        application_id: tells our files from any other SQLite file.
        version: of the tables; a file of another version is refused.
        script: the statements that make the tables, separated by ``;``.
        additions: statements that make, if they are missing, tables that older files of this version lack;
            whoever opens such a file for reading must do without them.
    """

    application_id: int
    version: int
    script: str
    additions: tuple[str, ...] = ()


class Database:
    """An open file.

    Args:
        path: the file, made if missing (with its folders) unless ``readonly``.
        schema: what it holds.
        readonly: open an existing file for reading.

    Raises:
        StoreError: missing, not ours, corrupt, locked, or of another schema version.
    """

    def __init__(
        self, path: str | os.PathLike[str], schema: Schema, *, readonly: bool = False
    ) -> None:
        self.path = Path(path)
        self._schema = schema
        self._lock = threading.RLock()
        if readonly and not self.path.is_file():
            raise StoreError(f"there is no store at {self.path}: give the folder of a run")
        with self._errors():
            if not readonly:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            mode = "ro" if readonly else "rwc"
            self._connection = sqlite3.connect(
                f"{self.path.absolute().as_uri()}?mode={mode}",
                uri=True,
                timeout=_BUSY_TIMEOUT_S,
                isolation_level=None,
                check_same_thread=False,
            )
            self._connection.row_factory = sqlite3.Row
            try:
                if not readonly:
                    self._prepare()
                self._check()
                for statement in () if readonly else schema.additions:
                    self._connection.execute(statement)
            except BaseException:
                self._connection.close()
                raise

    def _prepare(self) -> None:
        # Asked before WAL mode is set: that would already write into a file that is not ours.
        fresh = not self._connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
        if not fresh:
            self._check()
        self._connection.execute("PRAGMA journal_mode=WAL")
        # NORMAL would survive a kill, but after a power cut a synced checkpoint could outlive the record
        # of its batch, which would then be trained again.
        self._connection.execute("PRAGMA synchronous=FULL")
        if not fresh:
            return
        with self.write() as db:
            # Another process may have made the tables since.
            if not db.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
                for statement in self._schema.script.split(";"):
                    db.execute(statement)
                db.execute(f"PRAGMA application_id={self._schema.application_id}")
                db.execute(f"PRAGMA user_version={self._schema.version}")

    def _check(self) -> None:
        application = self._connection.execute("PRAGMA application_id").fetchone()[0]
        version = self._connection.execute("PRAGMA user_version").fetchone()[0]
        if application != self._schema.application_id:
            raise StoreError(f"{self.path} is not the store of a run: give another path")
        if version != self._schema.version:
            age = "a newer" if version > self._schema.version else "an older"
            raise StoreError(
                f"{self.path} was written by {age} agentic-gym (store schema {version}, this one reads "
                f"{self._schema.version}): use that release, or start the run in a new folder"
            )

    @contextlib.contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of it is kept, or nothing if the block raises. Nests into the outer one."""
        with self._lock, self._errors():
            if self._connection.in_transaction:
                yield self._connection
                return
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    @contextlib.contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """One consistent view: what other processes write meanwhile is not seen within the block."""
        with self._lock, self._errors():
            if self._connection.in_transaction:
                yield self._connection
                return
            self._connection.execute("BEGIN")
            try:
                yield self._connection
            finally:
                self._connection.execute("ROLLBACK")

    def close(self) -> None:
        """Closes the file; idempotent."""
        with self._lock:
            self._connection.close()

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            raise StoreError(f"{self.path} cannot be used: {error}") from error
        except sqlite3.ProgrammingError as error:
            raise StoreError(f"{self.path} was closed: open it again ({error})") from error
        except sqlite3.DatabaseError as error:
            raise StoreError(f"{self.path} is corrupt or not a store: {error}") from error
        except OSError as error:
            raise StoreError(f"{self.path} cannot be made: {error}") from error
