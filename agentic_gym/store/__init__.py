"""The store of one run: ledger, trajectories, batches, credit, checkpoints, evaluations, metrics, state.

One SQLite file in WAL mode, so that a run killed at any instant resumes with nothing lost and nothing
trained twice, while other processes read it. The ledger obeys a conservation law (DESIGN §4): every
launched trajectory is in exactly one of *launched* (in flight), *carried* (unfinished, its prefix is
kept), *buffered*, *trained* or *dropped with a reason*.

Resuming rests on one order of writes. The batch of an update is recorded before its optimiser step, and
a checkpoint of version v (v updates made) is recorded once its files are complete. After a kill: load
:meth:`RunStore.latest_checkpoint`, train :meth:`RunStore.batches_after` its version again from the
stored trajectories, keep what is :meth:`RunStore.buffered`, and launch :meth:`RunStore.in_flight` again.

Rejected: JSON lines beside the checkpoints (a torn last line, no transaction over trajectory and
ledger), pickles (unsafe to open, tied to class layout), and one file a trajectory (no atomic batch).
"""

from agentic_gym.store.credit import TokenCredit
from agentic_gym.store.ledger import LaunchRecord, LedgerCounts
from agentic_gym.store.run import RunStore

__all__ = ["LaunchRecord", "LedgerCounts", "RunStore", "TokenCredit"]
