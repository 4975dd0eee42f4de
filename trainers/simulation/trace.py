"""What trajectories did in a real run, resampled.

A simulated task stands for a recorded one, drawn at random; its trajectories are drawn, with replacement,
from all that were recorded of that task, so what a task has in common is kept. Only finished trajectories
are on record: a run that dropped its longest ones has none to give.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np

from agentic_gym.errors import ConfigError
from agentic_gym.store import RunStore
from agentic_gym.trainers.simulation.workload import PICK, TASK, Plan, uniform
from agentic_gym.types import Outcome, Trajectory


class TracePlans:
    """Plans drawn from recorded ones.

    Args:
        tasks: the plans of each recorded task; none is empty.
        seed: of every draw.
        seconds_per_token: measured seconds of a decode step; 0: unknown.

    Raises:
        ConfigError: there is no plan.
    """

    def __init__(
        self, tasks: Sequence[Sequence[Plan]], seed: int = 0, *, seconds_per_token: float = 0.0
    ) -> None:
        self._tasks = [list(plans) for plans in tasks if plans]
        if not self._tasks:
            raise ConfigError("there is no finished trajectory with tokens to resample")
        self._seed = seed
        self._seconds_per_token = seconds_per_token
        self._longest = max(
            plan.prompt + sum(plan.tokens) + sum(plan.observations)
            for plans in self._tasks
            for plan in plans
        )

    @property
    def longest(self) -> float:
        """See :class:`~agentic_gym.trainers.simulation.workload.Plans`."""
        return self._longest

    @property
    def seconds_per_token(self) -> float:
        """Median over the recorded turns of the engine's seconds a token."""
        return self._seconds_per_token

    def plan(self, task: int, group: int, member: int) -> Plan:
        """See :class:`~agentic_gym.trainers.simulation.workload.Plans`."""
        plans = self._tasks[int(uniform(self._seed, TASK, task) * len(self._tasks))]
        return plans[int(uniform(self._seed, PICK, group, member) * len(plans))]


def read_trace(path: str | os.PathLike[str], seed: int = 0) -> TracePlans:
    """Plans from the store of a run.

    Args:
        path: ``run.sqlite``, or the run folder that holds it.
        seed: of every draw.

    Raises:
        ConfigError: there is no such file, or nothing in it to resample.
        StoreError: the file is no store of a run, or corrupt.
    """
    file = Path(path)
    file = file if file.suffix == ".sqlite" else file / "run.sqlite"
    if not file.is_file():
        raise ConfigError(f"there is no trace at {file}: give a run folder, or its run.sqlite")
    tasks: dict[str, list[Plan]] = {}
    pace: list[float] = []
    with RunStore(file, readonly=True) as store:
        for trajectory in store.finished():
            plan = plan_of(trajectory)
            if plan is not None and trajectory.outcome is not Outcome.INFRA_ERROR:
                tasks.setdefault(trajectory.task_id, []).append(plan)
                pace += [
                    turn.generate_s / tokens
                    for turn, tokens in zip(trajectory.turns, plan.tokens, strict=True)
                ]
    if not tasks:
        raise ConfigError(
            f"{file} holds no finished trajectory with tokens: give the store of a run that has trained"
        )
    return TracePlans(list(tasks.values()), seed, seconds_per_token=median(pace))


def plan_of(trajectory: Trajectory) -> Plan | None:
    """What a recorded trajectory did; None if it has no turn, or its agent was no token model."""
    stream, turns = trajectory.tokens, trajectory.turns
    if stream is None or not turns:
        return None
    sampled = np.bincount(stream.turns[stream.sampled], minlength=len(turns))
    answered = stream.turns[~stream.sampled & (stream.turns >= 0)]
    answers = np.bincount(answered, minlength=len(turns))
    return Plan(
        prompt=max(1, int(np.count_nonzero(stream.turns < 0))),
        tokens=tuple(max(1, int(count)) for count in sampled[: len(turns)]),
        observations=tuple(int(count) for count in answers[: len(turns)]),
        latencies=tuple(float(turn.step_s) for turn in turns),
    )
