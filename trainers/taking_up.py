"""What the ledger knows when launching begins, and what it is told of new launches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from agentic_gym.store import LaunchRecord, RunStore
from agentic_gym.trainers.curation import REFUSED
from agentic_gym.trainers.schedules import base
from agentic_gym.types import Trajectory


@dataclass(slots=True)
class Left:
    """What a run had when it was stopped.

    Attributes:
        records: launches that are not finished.
        prefixes: what was kept of them.
        parked: the same, for the schedule.
        finished: those that are finished and in no batch, for the schedule.
        groups: their names by group.
    """

    records: dict[str, LaunchRecord] = field(default_factory=dict)
    prefixes: dict[str, Trajectory] = field(default_factory=dict)
    parked: list[base.Known] = field(default_factory=list)
    finished: list[base.Known] = field(default_factory=list)
    groups: dict[str, set[str]] = field(default_factory=dict)


def taken_up(store: RunStore, version: int, refused: Iterable[str]) -> Left:
    """Reads it from the ledger.

    Args:
        store: of the run.
        version: of the weights now, for what nothing was sampled of.
        refused: trajectories of refused groups; those that a kill left are dropped.
    """
    left = Left(prefixes={prefix.trajectory_id: prefix for prefix in store.carried()})
    for record in store.in_flight():
        left.records[record.trajectory_id] = record
        prefix = left.prefixes.get(record.trajectory_id)
        oldest = version if prefix is None else oldest_version(prefix, version)
        left.parked.append(base.Known(record.trajectory_id, oldest))
    out = set(refused)
    for trajectory in store.buffered():
        name = trajectory.trajectory_id
        if name in out:
            store.drop(name, REFUSED)
            continue
        left.finished.append(base.Known(name, oldest_version(trajectory, version)))
        left.groups.setdefault(trajectory.group_id, set()).add(name)
    return left


def oldest_version(trajectory: Trajectory, default: int) -> int:
    """Of the weights that a trajectory was sampled from; ``default`` if nothing was sampled."""
    stream = trajectory.tokens
    if stream is None or not stream.sampled.any():
        return default
    return int(stream.versions[stream.sampled].min())


def launch_records(
    launch: base.Launch, task: str, run_seed: int, version: int
) -> list[LaunchRecord]:
    """The trajectories of a new group.

    Args:
        launch: of the group.
        task: that it plays.
        run_seed: of the run.
        version: of the weights that serve it.
    """
    return [
        LaunchRecord(
            base.trajectory_id(launch.group, member),
            task,
            base.group_id(launch.group),
            episode_seed(run_seed, launch.group, member),
            version,
        )
        for member in range(launch.size)
    ]


def episode_seed(run_seed: int, group: int, member: int) -> int:
    """Seed of an episode: fixed by its place in the run, not by when it is launched."""
    return int(np.random.SeedSequence([run_seed, group, member]).generate_state(1)[0] >> 1)


def complete_launch(store: RunStore, saved: Mapping[str, Any]) -> None:
    """Launches what was about to be launched when the state was saved, if a kill came between."""
    launches = [LaunchRecord(*fields) for fields in saved.get("launches", ())]
    if launches and store.counts().launches == saved["before"]:
        store.launch(launches)
