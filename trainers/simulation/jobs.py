"""Trajectories of a simulated run, and the ledger that proves that none is lost."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from agentic_gym.errors import ScheduleContractError
from agentic_gym.trainers.schedules import base
from agentic_gym.trainers.simulation.workload import Plan

if TYPE_CHECKING:
    from agentic_gym.trainers.simulation.replica import Replica

QUEUED = "queued"
CARRIED = "carried"
BROKEN = "broken"
PARKED = "parked"
FINISHED = "finished"
IN_BATCH = "in_batch"
TRAINED = "trained"
DROPPED = "dropped"
LIVE = (QUEUED, CARRIED, BROKEN, PARKED)
"""States of a trajectory that is not over: waiting for a replica, on one, broken, or parked."""


class Job:
    """A trajectory.

    Attributes:
        name: of it.
        plan: what it does.
        state: one of the states above.
        turn: its number.
        left: tokens that the turn still samples; 0: the environment has the word.
        context: tokens so far, prompt and observations included.
        ready_at: when the environment answers.
        breaks_at: turn after which this attempt breaks; negative: it does not.
        replica: that carries it.
        placed: by the schedule, not by the driver.
        moving: its cache is on its way to the replica.
        first_version, last_version: of the weights that sampled it; negative: nothing is sampled.
        launched_version: of the trainer, at its launch.
        launched_at: when.
        started_at: when its first request was admitted, less the seconds that it was parked before;
            negative: not yet.
        parked_at: since when it is parked.
        parked_s: seconds that it was parked, up to its last resumption.
        end, ticket: its place in the replica's heap; no ticket: not there.
        timer: what wakes it after a tool call.
    """

    __slots__ = (
        "breaks_at",
        "context",
        "end",
        "first_version",
        "last_version",
        "launched_at",
        "launched_version",
        "left",
        "moving",
        "name",
        "parked_at",
        "parked_s",
        "placed",
        "plan",
        "ready_at",
        "replica",
        "started_at",
        "state",
        "ticket",
        "timer",
        "turn",
    )

    def __init__(self, name: str, plan: Plan, version: int, now: float) -> None:
        self.name = name
        self.plan = plan
        self.state = ""
        self.replica: Replica | None = None
        self.placed = self.moving = False
        self.launched_version = version
        self.launched_at = now
        self.parked_at = self.parked_s = 0.0
        self.started_at = -1.0
        self.end = 0.0
        self.ticket = 0
        self.timer: Any = None
        self.breaks_at = -1
        self.restart()

    def restart(self) -> None:
        """Forgets its prefix."""
        self.turn = 0
        self.left = float(self.plan.tokens[0])
        self.context = float(self.plan.prompt)
        self.ready_at = 0.0
        self.first_version = self.last_version = -1

    @property
    def version(self) -> int:
        """The oldest weights in it, or those at its launch."""
        return self.launched_version if self.first_version < 0 else self.first_version

    @property
    def sampled(self) -> int:
        """Tokens that a finished trajectory has sampled."""
        return sum(self.plan.tokens)


class Ledger:
    """Every trajectory that was launched, until it is over, and counts of those that are.

    Attributes:
        jobs: those that are not over, by name.
        counts: trajectories in each state.
        launched: trajectories.
        dropped: by reason, names left out.
    """

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.counts: Counter[str] = Counter()
        self.launched = 0
        self.dropped: Counter[str] = Counter()

    def launch(self, job: Job) -> None:
        """A new trajectory."""
        self.jobs[job.name] = job
        self.launched += 1
        job.state = QUEUED
        self.counts[QUEUED] += 1

    def move(self, job: Job, state: str) -> None:
        """A trajectory changes its state; one that is over is forgotten."""
        self.counts[job.state] -= 1
        self.counts[state] += 1
        job.state = state
        if state in (TRAINED, DROPPED):
            del self.jobs[job.name]

    def drop(self, job: Job, reason: str) -> None:
        """A trajectory is taken out."""
        self.move(job, DROPPED)
        self.dropped[re.sub(r"g\d{6,}(\.\d{2,})?", "…", reason)] += 1

    def expect(self, action: base.Action, name: str, *states: str) -> Job:
        """A trajectory in one of these states.

        Raises:
            ScheduleContractError: it is in none of them, was never launched, or is over.
        """
        job = self.jobs.get(name)
        if job is None:
            raise ScheduleContractError(
                f"{action} of a trajectory that was never launched, or is over"
            )
        if job.state not in states:
            raise ScheduleContractError(f"{action} of a trajectory that is {job.state}")
        return job

    def check(self) -> None:
        """Proves the conservation law.

        Raises:
            ScheduleContractError: a trajectory is lost, or in two places.
        """
        seen = Counter(job.state for job in self.jobs.values())
        seen[TRAINED], seen[DROPPED] = self.counts[TRAINED], sum(self.dropped.values())
        if +seen != +self.counts or seen.total() != self.launched:
            raise ScheduleContractError(
                f"{self.launched} trajectories were launched, and these are accounted for: {+seen}"
            )
