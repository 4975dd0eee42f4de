"""Who waits for whom: told when a run makes no progress any more."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

from agentic_gym.engines.replicas import ReplicaSet
from agentic_gym.errors import InfraError
from agentic_gym.trainers.episodes import Entry, Status

_SHOWN = 20


def who_waits(
    entries: Sequence[Entry],
    replicas: ReplicaSet | None,
    publishing: Sequence[int],
    now: float,
) -> str:
    """A few lines for a person.

    Args:
        entries: episodes that are not over.
        replicas: of the engine.
        publishing: replicas that are loading weights.
        now: seconds, by the clock of the entries.
    """
    counts = Counter(entry.status.value for entry in entries)
    lines = [
        f"episodes: {', '.join(f'{n} {status}' for status, n in sorted(counts.items())) or 'none'}"
    ]
    active = [entry for entry in entries if entry.status is Status.ACTIVE]
    active.sort(key=lambda entry: entry.since)
    lines.extend(
        f"  {entry.name} ({entry.launch.task_id}) waits for {entry.waits_for} on replica "
        f"{entry.replica} for {now - entry.since:.0f} s"
        for entry in active[:_SHOWN]
    )
    if len(active) > _SHOWN:
        lines.append(f"  … and {len(active) - _SHOWN} more")
    if replicas is not None:
        loads = replicas.loads()
        for replica, version in sorted(replicas.versions.items()):
            load = loads[replica]
            busy = " (loading weights)" if replica in publishing else ""
            lines.append(
                f"replica {replica}{busy}: version {version}, {load.requests} requests, "
                f"{load.kv_tokens} of {load.kv_capacity} tokens held"
            )
    return "\n".join(lines)


def stalled(
    entries: Sequence[Entry], replicas: ReplicaSet | None, publishing: Sequence[int], idle: float
) -> InfraError:
    """The error that ends a run which makes no progress any more.

    Args:
        entries: episodes that are not over.
        replicas: of the engine.
        publishing: replicas that are loading weights.
        idle: seconds since something happened.
    """
    waiting = who_waits(entries, replicas, publishing, time.perf_counter())
    return InfraError(
        f"nothing has happened for {idle:.0f} s (stall_timeout_s): no turn, no result, no update. "
        f"Who waits for whom:\n{waiting}"
    )
