"""The ledger: which trajectories exist, what became of each, and which update trained on which.

Every launched trajectory is in exactly one of *launched* (in flight), *carried* (unfinished, its prefix
is kept), *buffered*, *trained* or *dropped with a reason*: the conservation law of the whole project.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from agentic_gym.errors import StoreError
from agentic_gym.store import prefixes
from agentic_gym.store.conservation import BREACHES
from agentic_gym.store.database import Database
from agentic_gym.store.records import decode_trajectory, encode_trajectory
from agentic_gym.types import Outcome, Trajectory

TABLES = f"""
{prefixes.TABLES.strip()};
CREATE TABLE trajectories (
  id TEXT PRIMARY KEY, task_id TEXT NOT NULL, group_id TEXT NOT NULL, seed INTEGER NOT NULL,
  version INTEGER NOT NULL, launch_order INTEGER NOT NULL, finish_order INTEGER, outcome TEXT,
  state TEXT NOT NULL CHECK (state IN ('launched', 'carried', 'buffered', 'trained', 'dropped')),
  reason TEXT, update_id INTEGER, position INTEGER, record BLOB);
CREATE INDEX trajectories_by_state ON trajectories (state, finish_order);
CREATE UNIQUE INDEX trajectories_by_update ON trajectories (update_id, position);
CREATE TABLE updates (update_id INTEGER PRIMARY KEY, size INTEGER NOT NULL, trained INTEGER NOT NULL);
CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
INSERT INTO counters VALUES ('launches', 0), ('finishes', 0), ('refused', 0)
"""


@dataclass(frozen=True, slots=True)
class LaunchRecord:
    """What is known of a trajectory when it starts: enough to start it again.

    Attributes:
        trajectory_id: unique in the run.
        task_id: which task.
        group_id: trajectories of one task launched together share it.
        seed: of the episode (environment and sampling).
        version: weight version at the launch.
    """

    trajectory_id: str
    task_id: str
    group_id: str
    seed: int
    version: int


@dataclass(frozen=True, slots=True)
class LedgerCounts:
    """How many trajectories are where: ``launches`` is the sum of the others but ``refused``.

    Attributes:
        launches: ever launched.
        in_flight: launched, neither finished nor carried.
        carried: unfinished, with a prefix that is kept.
        buffered: finished and untrained, in a recorded batch or not.
        trained: used in an update.
        dropped: by reason.
        refused: finishes that came for a trajectory already trained or dropped.
    """

    launches: int = 0
    in_flight: int = 0
    carried: int = 0
    buffered: int = 0
    trained: int = 0
    dropped: Mapping[str, int] = field(default_factory=dict)
    refused: int = 0


class Ledger:
    """The ledger of one run, over its open database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def launch(self, records: Sequence[LaunchRecord]) -> None:
        """Records trajectories before they start, all or none.

        Launching one in flight again (after a kill, or because it broke) updates its weight version and
        forgets its prefix: it starts from nothing.

        Raises:
            StoreError: an id is taken by a finished trajectory or by another task, group or seed.
        """
        with self._database.write() as db:
            for record in records:
                row = _row(db, record.trajectory_id)
                if row is None:
                    db.execute(
                        "INSERT INTO trajectories (id, task_id, group_id, seed, version, launch_order, "
                        "state) VALUES (?, ?, ?, ?, ?, ?, 'launched')",
                        (
                            record.trajectory_id,
                            record.task_id,
                            record.group_id,
                            record.seed,
                            record.version,
                            _count(db, "launches"),
                        ),
                    )
                    continue
                same = (row["task_id"], row["group_id"], row["seed"])
                if same != (record.task_id, record.group_id, record.seed) or row["state"] not in {
                    "launched",
                    "carried",
                }:
                    raise StoreError(
                        f"trajectory {record.trajectory_id!r} was launched before and is "
                        f"{row['state']}: launch under a new id"
                    )
                db.execute(
                    "UPDATE trajectories SET version = ?, state = 'launched' WHERE id = ?",
                    (record.version, record.trajectory_id),
                )
                prefixes.forget(db, record.trajectory_id)

    def finish(self, trajectory: Trajectory) -> bool:
        """Buffers a finished trajectory. Returns whether it was taken.

        A second finish changes nothing; one for a trajectory already trained or dropped is counted in
        :attr:`LedgerCounts.refused`.

        Raises:
            StoreError: it was never launched.
        """
        record = encode_trajectory(trajectory)  # outside the lock: this is the expensive part
        with self._database.write() as db:
            if not _unfinished(db, trajectory.trajectory_id):
                return False
            order = _count(db, "finishes")
            db.execute(
                "UPDATE trajectories SET state = 'buffered', record = ?, outcome = ?, finish_order = ? "
                "WHERE id = ?",
                (record, trajectory.outcome.value, order, trajectory.trajectory_id),
            )
            prefixes.forget(db, trajectory.trajectory_id)
            return True

    def carry(self, prefix: Trajectory) -> bool:
        """Keeps what an unfinished trajectory has so far, to be carried on from. As :meth:`finish`.

        Only turns that were not stored before are written.
        """
        with self._database.write() as db:
            if not _unfinished(db, prefix.trajectory_id):
                return False
            prefixes.extend(db, prefix)
            db.execute(
                "UPDATE trajectories SET state = 'carried' WHERE id = ?", (prefix.trajectory_id,)
            )
            return True

    def carry_all(self, prefixes: Iterable[Trajectory]) -> None:
        """:meth:`carry` for many, in one transaction."""
        with self._database.write():
            for prefix in prefixes:
                self.carry(prefix)

    def drop(self, trajectory_id: str, reason: str) -> None:
        """Takes a trajectory out, with a reason; what finished keeps its record. Idempotent.

        Raises:
            StoreError: it was never launched, was trained, is in a recorded batch, or no reason is given.
        """
        if not reason:
            raise StoreError(
                f"dropping {trajectory_id!r} needs a reason: say why it is not trained"
            )
        with self._database.write() as db:
            row = _known(db, trajectory_id)
            if row["update_id"] is not None:
                raise StoreError(
                    f"{trajectory_id!r} cannot be dropped: it is in the batch of update {row['update_id']}"
                )
            if row["state"] != "dropped":
                db.execute(
                    "UPDATE trajectories SET state = 'dropped', reason = ? WHERE id = ?",
                    (_storable(reason), trajectory_id),
                )
                prefixes.forget(db, trajectory_id)

    def record_batch(self, update: int, ids: Sequence[str]) -> None:
        """Records what an update trains on, before its optimiser step. Idempotent.

        Raises:
            StoreError: the update has another batch, or a trajectory is not buffered, is in another
                batch, occurs twice, or ended as ``infra_error``.
        """
        with self._database.write() as db:
            recorded = _batch(db, update)
            if recorded == list(ids) and ids:
                return
            if recorded or not ids:
                raise StoreError(
                    f"the batch of update {update} cannot be {list(ids)[:4]}… ({len(ids)} trajectories): "
                    + (
                        f"it has {len(recorded)} others"
                        if recorded
                        else "a batch needs at least one"
                    )
                )
            for position, trajectory_id in enumerate(ids):
                row = _known(db, trajectory_id)
                if row["state"] != "buffered" or row["update_id"] is not None:
                    taken = row["update_id"] is not None
                    where = f"in that of update {row['update_id']}" if taken else row["state"]
                    raise StoreError(
                        f"{trajectory_id!r} cannot be in the batch of update {update}: it is {where}"
                    )
                if row["outcome"] == Outcome.INFRA_ERROR.value:
                    raise StoreError(
                        f"{trajectory_id!r} ended as infra_error: drop it, never train it"
                    )
                db.execute(
                    "UPDATE trajectories SET update_id = ?, position = ? WHERE id = ?",
                    (update, position, trajectory_id),
                )
            db.execute("INSERT INTO updates VALUES (?, ?, 0)", (update, len(ids)))

    def mark_trained(self, update: int) -> None:
        """Marks the batch of an update as trained. Idempotent.

        Raises:
            StoreError: the update has no recorded batch.
        """
        with self._database.write() as db:
            if not _batch(db, update):
                raise StoreError(f"update {update} has no recorded batch: call record_batch first")
            db.execute("UPDATE updates SET trained = 1 WHERE update_id = ?", (update,))
            db.execute("UPDATE trajectories SET state = 'trained' WHERE update_id = ?", (update,))

    def batches_after(self, update: int) -> list[tuple[int, list[str]]]:
        """Recorded batches of later updates, oldest first, ids in the order recorded."""
        with self._database.read() as db:
            rows = db.execute(
                "SELECT update_id FROM updates WHERE update_id > ? ORDER BY update_id", (update,)
            ).fetchall()
            return [(row["update_id"], _batch(db, row["update_id"])) for row in rows]

    def in_flight(self) -> list[LaunchRecord]:
        """Launched and unfinished, carried ones included, in launch order."""
        with self._database.read() as db:
            rows = db.execute(
                "SELECT id, task_id, group_id, seed, version FROM trajectories "
                "WHERE state IN ('launched', 'carried') ORDER BY launch_order"
            )
            return [LaunchRecord(*row) for row in rows]

    def task_of(self, group_id: str) -> str:
        """The task that a group plays.

        Raises:
            StoreError: no trajectory of such a group was ever launched.
        """
        with self._database.read() as db:
            row = db.execute(
                "SELECT task_id FROM trajectories WHERE group_id = ? LIMIT 1", (group_id,)
            ).fetchone()
        if row is None:
            raise StoreError(f"no trajectory of group {group_id!r} was ever launched")
        return str(row[0])

    def buffered(self) -> list[Trajectory]:
        """Finished and in no recorded batch, in the order in which they finished."""
        return list(self._select("state = 'buffered' AND update_id IS NULL ORDER BY finish_order"))

    def carried(self) -> list[Trajectory]:
        """Prefixes of unfinished trajectories, in launch order."""
        with self._database.read() as db:
            ids = db.execute(
                "SELECT id FROM trajectories WHERE state = 'carried' ORDER BY launch_order"
            ).fetchall()
            return [prefixes.load(db, row[0]) for row in ids]

    def finished(self) -> Iterator[Trajectory]:
        """All that ever finished, trained and dropped ones too, in the order in which they finished."""
        return self._select("finish_order IS NOT NULL ORDER BY finish_order")

    def trajectories(self, ids: Iterable[str]) -> list[Trajectory]:
        """The records of some trajectories, in the order asked.

        Raises:
            StoreError: one is unknown or has no record yet.
        """
        found = []
        for trajectory_id in ids:
            with self._database.read() as db:
                record = _known(db, trajectory_id)["record"]
            if record is None:
                raise StoreError(f"trajectory {trajectory_id!r} has no record yet: it is in flight")
            found.append(decode_trajectory(record))
        return found

    def counts(self) -> LedgerCounts:
        """How many trajectories are where."""
        with self._database.read() as db:
            states = dict(
                db.execute("SELECT state, COUNT(*) FROM trajectories GROUP BY state").fetchall()
            )
            dropped = db.execute(
                "SELECT reason, COUNT(*) FROM trajectories WHERE state = 'dropped' GROUP BY reason"
            ).fetchall()
            counters = dict(db.execute("SELECT name, value FROM counters").fetchall())
        return LedgerCounts(
            launches=counters["launches"],
            in_flight=states.get("launched", 0),
            carried=states.get("carried", 0),
            buffered=states.get("buffered", 0),
            trained=states.get("trained", 0),
            dropped=dict(dropped),
            refused=counters["refused"],
        )

    def check_conservation(self) -> LedgerCounts:
        """Proves the conservation law on what is stored.

        Raises:
            StoreError: a trajectory is lost, in two places, trained outside its batch, or nameless.
        """
        with self._database.read() as db:
            breaches = [row[0] for row in db.execute(BREACHES)]
            if breaches:
                raise StoreError(
                    f"{self._database.path}: the ledger is broken: {'; '.join(breaches[:8])}"
                )
            return self.counts()

    def _select(self, where: str) -> Iterator[Trajectory]:
        # Ids first and records one by one: a run's trajectories may be larger than memory.
        with self._database.read() as db:
            ids = [row[0] for row in db.execute(f"SELECT id FROM trajectories WHERE {where}")]
        for trajectory_id in ids:
            yield from self.trajectories([trajectory_id])


def _row(db: sqlite3.Connection, trajectory_id: str) -> sqlite3.Row | None:
    row: sqlite3.Row | None = db.execute(
        "SELECT * FROM trajectories WHERE id = ?", (trajectory_id,)
    ).fetchone()
    return row


def _known(db: sqlite3.Connection, trajectory_id: str) -> sqlite3.Row:
    row = _row(db, trajectory_id)
    if row is None:
        raise StoreError(
            f"trajectory {trajectory_id!r} was never launched: call launch before it starts"
        )
    return row


def _unfinished(db: sqlite3.Connection, trajectory_id: str) -> bool:
    """Whether a result is wanted; one for a trajectory already trained or dropped is counted."""
    state = _known(db, trajectory_id)["state"]
    if state in {"trained", "dropped"}:
        _count(db, "refused")
    return state in {"launched", "carried"}


def _batch(db: sqlite3.Connection, update: int) -> list[str]:
    rows = db.execute(
        "SELECT id FROM trajectories WHERE update_id = ? ORDER BY position", (update,)
    )
    return [row[0] for row in rows]


def _count(db: sqlite3.Connection, name: str) -> int:
    """Adds one to a counter and returns its new value."""
    db.execute("UPDATE counters SET value = value + 1 WHERE name = ?", (name,))
    value: int = db.execute("SELECT value FROM counters WHERE name = ?", (name,)).fetchone()[0]
    return value


def _storable(text: str) -> str:
    """SQLite takes no lone surrogates; they are shown as escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
