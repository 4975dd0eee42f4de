"""A thousand replicas are simulated in minutes: what the simulator itself takes for a trajectory."""

from __future__ import annotations

import time

import pytest

from agentic_gym.trainers.schedules import base
from agentic_gym.trainers.schedules.registry import make_schedule
from agentic_gym.trainers.simulation.cluster import Cluster
from agentic_gym.trainers.simulation.driver import Simulation
from agentic_gym.trainers.simulation.workload import LognormalPlans, Workload

REPLICAS, BATCH, UPDATES = 1000, 8192, 3

MOST = 120 / (100 * BATCH)
"""Processor seconds a trajectory, at which 100 updates take two minutes."""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bounded_async", "relay", "streaming", "sync", "tail_batching"])
def test_a_hundred_updates_of_a_thousand_replicas_take_less_than_two_minutes(name: str) -> None:
    schedule = make_schedule(name, BATCH, 8, 2 * BATCH, REPLICAS)
    handle = schedule.handle
    thought = 0.0

    def timed(event: base.Event) -> list[base.Action]:
        nonlocal thought
        began = time.process_time()
        actions = handle(event)
        thought += time.process_time() - began
        return actions

    schedule.handle = timed  # type: ignore[method-assign]
    simulation = Simulation(
        schedule,
        Cluster(replicas=REPLICAS, train_seconds_per_token=1e-7),
        LognormalPlans(Workload()),
        updates=UPDATES,
    )
    began = time.process_time()
    simulation.run()
    # What the schedule thinks is its own affair; asking the clock twice an event counts for the simulator.
    seconds = time.process_time() - began - thought
    assert seconds / simulation.ledger.launched < MOST
