"""Every schedule, on clusters of any kind: nothing is lost, and its promises hold in simulated time too."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_gym.trainers.schedules.registry import make_schedule, schedule_names
from agentic_gym.trainers.simulation.cluster import Cluster
from agentic_gym.trainers.simulation.driver import Simulation
from agentic_gym.trainers.simulation.report import make_report
from agentic_gym.trainers.simulation.workload import LognormalPlans, Workload

UPDATES = 4

CLUSTERS = st.builds(
    Cluster,
    replicas=st.integers(1, 5),
    max_concurrent=st.sampled_from([2, 8, 64]),
    step_seconds=st.just(0.02),
    roofline_batch=st.sampled_from([1, 4, 64]),
    kv_capacity=st.sampled_from([4000, 20_000, 10**6]),
    prefill_tokens_per_s=st.sampled_from([300.0, 1e5]),
    migrate_tokens_per_s=st.sampled_from([0.0, 1e5]),
    transfer=st.just("broadcast"),
    transfer_seconds=st.sampled_from([0.0, 4.0]),
    train_seconds=st.sampled_from([0.0, 30.0]),
    failure=st.sampled_from([0.0, 0.2]),
    death_hours=st.sampled_from([0.0, 0.05]),
    repair_seconds=st.sampled_from([0.0, 60.0]),
)

WORKLOADS = st.builds(
    Workload,
    prompt_tokens=st.just(50),
    median_tokens=st.sampled_from([20.0, 300.0]),
    sigma=st.sampled_from([0.0, 1.0]),
    max_tokens=st.just(2000),
    correlation=st.sampled_from([0.0, 1.0]),
    tokens_per_turn=st.sampled_from([0, 150]),
    max_turns=st.just(10),
    observation_tokens=st.just(30),
    tool_p50=st.sampled_from([0.0, 0.3]),
)

RETRIES = {"max_retries": 20, "max_lost_groups": 10**6}

SINGLE = ("bounded_async", "relay", "streaming", "sync", "tail_batching")

OPTIONS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "sync": st.just({}),
    "bounded_async": st.fixed_dictionaries(
        {
            "max_staleness": st.integers(0, 3),
            "on_publish": st.sampled_from(["interrupt", "keep_kv", "wait"]),
        }
    ),
    "plan": st.builds(
        lambda first, second: {
            "default": first,
            "rules": [{"schedule": second, "every": 2, "updates": 1}],
            "schedules": {first: RETRIES, second: RETRIES},
            "min_updates": 1,
        },
        st.sampled_from(SINGLE),
        st.sampled_from(SINGLE),
    ),
    "relay": st.fixed_dictionaries(
        {
            "max_staleness": st.sampled_from([None, 0, 2]),
            "repack_seconds": st.sampled_from([3.0, math.inf]),
        }
    ),
    "streaming": st.fixed_dictionaries({"window": st.integers(2, 3), "elastic": st.booleans()}),
    "tail_batching": st.fixed_dictionaries(
        {
            "carry": st.sampled_from(["resume", "restart"]),
            "response_redundancy": st.sampled_from([1.0, 1.5]),
        }
    ),
}


def test_every_schedule_is_tried() -> None:
    assert sorted(OPTIONS) == list(schedule_names())


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_nothing_is_lost_and_promises_hold(name: str) -> None:
    @settings(deadline=None, derandomize=True, max_examples=80)
    @given(
        options=OPTIONS[name],
        cluster=CLUSTERS,
        relay=st.booleans(),
        workload=WORKLOADS,
        groups=st.integers(1, 6),
        group_size=st.integers(1, 3),
        concurrency=st.integers(1, 40),
        seed=st.integers(0, 10**6),
    )
    def check(
        options: dict[str, Any],
        cluster: Cluster,
        relay: bool,
        workload: Workload,
        groups: int,
        group_size: int,
        concurrency: int,
        seed: int,
    ) -> None:
        size = groups * group_size
        if relay:
            cluster = Cluster(**{**cluster.model_dump(), "transfer": "relay", "push_seconds": 2.0})
        given: dict[str, Any] = {**({} if name == "plan" else RETRIES), **options}
        schedule = make_schedule(
            name,
            size,
            group_size,
            size + concurrency,
            cluster.replicas,
            **given,
        )
        plans = LognormalPlans(workload, seed)
        simulation = Simulation(schedule, cluster, plans, seed=seed, updates=UPDATES)
        record = simulation.run()  # raises if the contract or the conservation law is broken
        assert record.trajectories == UPDATES * size
        assert len(record.updates) == UPDATES
        report = make_report(simulation, name)
        assert sum(report.replicas.values()) == pytest.approx(1.0)
        assert min(report.replicas.values()) >= -1e-9
        check_promises(name, options, report.staleness["max"], record.mixed)

    check()


def check_promises(name: str, options: dict[str, Any], stalest: float, mixed: int) -> None:
    """What a schedule promises of the trajectories that it trains."""
    if name == "sync":
        assert stalest == 0
    if name == "streaming":
        assert stalest <= options["window"]
    if options.get("max_staleness") is not None:
        assert stalest <= options["max_staleness"]
    if name in {"sync", "streaming", "relay"}:
        assert mixed == 0
