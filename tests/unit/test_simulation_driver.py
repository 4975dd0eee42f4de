"""The simulated run: what time things take."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from agentic_gym.errors import ConfigError, ScheduleContractError
from agentic_gym.trainers.schedules import base
from agentic_gym.trainers.schedules.sync import Sync
from agentic_gym.trainers.simulation.cluster import Cluster
from agentic_gym.trainers.simulation.driver import Simulation
from agentic_gym.trainers.simulation.report import make_report
from agentic_gym.trainers.simulation.workload import LognormalPlans, Plan, Workload

STEP = 0.01
MACHINE: dict[str, Any] = {
    "step_seconds": STEP,
    "kv_seconds_per_token": 0.0,
    "prefill_tokens_per_s": 1e18,
    "roofline_batch": 10**6,
    "transfer_seconds": 3.0,
    "train_seconds": 7.0,
    "train_seconds_per_token": 0.01,
}


def cluster(**changes: Any) -> Cluster:
    return Cluster(**{**MACHINE, **changes})


class Fixed:
    """Plans as given, by group and member."""

    seconds_per_token = 0.0

    def __init__(self, make: Callable[[int, int], Plan]) -> None:
        self._make = make
        self.longest = 10_000.0

    def plan(self, task: int, group: int, member: int) -> Plan:
        return self._make(group, member)


def tokens(*turns: int, prompt: int = 1, observation: int = 0, seconds: float = 0.0) -> Plan:
    count = len(turns)
    return Plan(prompt, turns, (observation,) * (count - 1) + (0,), (seconds,) * count)


class Script:
    """Does what a list says, event after event, and notes what it is told."""

    def __init__(self, *answers: tuple[type, Sequence[base.Action]]) -> None:
        self._answers = list(answers)
        self.events: list[base.Event] = []

    def handle(self, event: base.Event) -> list[base.Action]:
        if not isinstance(event, base.Tick):
            self.events.append(event)
        if self._answers and isinstance(event, self._answers[0][0]):
            return list(self._answers.pop(0)[1])
        return []

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        raise AssertionError("not in a simulation")


NAMES = tuple(base.trajectory_id(0, member) for member in range(4))


# ---- time ----------------------------------------------------------------------------------------


def test_a_synchronous_update_takes_its_longest_trajectory() -> None:
    lengths = [[30, 500, 70], [900, 20, 40]]
    plans = Fixed(lambda group, member: tokens(lengths[group][member]))
    simulation = Simulation(Sync(3, 3), cluster(replicas=2), plans, updates=2)
    record = simulation.run()
    trained = [7.0 + 0.01 * (sum(row) + 3) for row in lengths]
    assert record.updates == pytest.approx([500 * STEP + trained[0], 3.0 + 900 * STEP + trained[1]])
    shares = make_report(simulation, "sync")
    busy = (70 + 500 + 900 + 20) * STEP  # the first and the third share a replica
    assert shares.replicas["busy"] * shares.seconds * 2 == pytest.approx(busy)
    assert shares.replicas["publish"] * shares.seconds == pytest.approx(3.0)
    assert shares.trainer["busy"] * shares.seconds == pytest.approx(sum(trained))
    assert shares.tokens_per_s * shares.seconds == pytest.approx(sum(map(sum, lengths)))
    assert shares.staleness_counts == {0: 6}


def test_turns_and_tool_calls_add_up() -> None:
    plan = tokens(100, 50, 10, prompt=20, observation=5, seconds=4.0)
    simulation = Simulation(
        Sync(1), cluster(prefill_tokens_per_s=10.0), Fixed(lambda *_: plan), updates=1
    )
    # The prompt and two observations are prefilled; the prefix is kept between turns.
    expected = (20 + 5 + 5) / 10 + 160 * STEP + 3 * 4.0
    train = 7.0 + 0.01 * (20 + 160 + 10)
    assert simulation.run().updates == pytest.approx([expected + train])


def test_places_bind_and_the_first_to_come_is_the_first_to_run() -> None:
    simulation = Simulation(
        Sync(6), cluster(replicas=1, max_concurrent=2), Fixed(lambda *_: tokens(100)), updates=1
    )
    record = simulation.run()
    assert sorted(record.waits) == pytest.approx([0, 0, 1, 1, 2, 2])
    assert record.updates == pytest.approx([3.0 + 7.0 + 0.01 * 606])


def test_a_trajectory_goes_to_the_replica_with_the_least_to_do() -> None:
    script = Script((base.Begun, [base.Launch(0, 4), base.Launch(1, 2)]))
    simulation = Simulation(script, cluster(replicas=3), Fixed(lambda *_: tokens(100)))
    with pytest.raises(ScheduleContractError, match="stuck"):
        simulation.run()
    # Six, on three replicas: two each, side by side. Nothing was ever emitted.
    assert [r.busy_s for r in simulation.fleet.replicas.values()] == pytest.approx([1.0] * 3)
    assert simulation.ledger.counts["finished"] == 6


def test_the_warm_up_is_not_measured() -> None:
    lengths = [1000, 1000, 100, 200]
    plans = Fixed(lambda group, _: tokens(lengths[group]))
    simulation = Simulation(Sync(1), cluster(replicas=1), plans, updates=4, warmup=2)
    record = simulation.run()
    assert record.updates == pytest.approx([3 + 1 + 7 + 1.01, 3 + 2 + 7 + 2.01])
    report = make_report(simulation, "sync")
    assert report.updates == 2
    assert report.replicas["busy"] * report.seconds == pytest.approx(3.0)
    assert report.replicas["idle"] == pytest.approx(1 - (3.0 + 6.0) / report.seconds)


# ---- weights -------------------------------------------------------------------------------------


def publishing(mode: str) -> Script:
    """Trains a first trajectory of one token and publishes while a second one runs."""
    return Script(
        (base.Begun, [base.Launch(0, 1), base.Launch(1, 1)]),
        (base.Finished, [base.Emit((NAMES[0],))]),
        (base.Trained, [base.Publish(mode=mode)]),  # type: ignore[arg-type]
        (base.Finished, [base.Emit((base.trajectory_id(1, 0),))]),
    )


@pytest.mark.parametrize(
    ("mode", "seconds", "mixed"),
    [("wait", 0.0, 0), ("keep", 3.0 + 722 / 100, 1), ("keep_kv", 3.0, 1)],
)
def test_what_a_publish_costs_what_runs(mode: str, seconds: float, mixed: int) -> None:
    # 0.2 s for both prompts, a step, 7.11 s of training: then the second has 10 + 712 tokens cached.
    script = publishing(mode)
    simulation = Simulation(
        script,
        cluster(replicas=1, prefill_tokens_per_s=100.0),
        Fixed(lambda group, _: tokens(2000 if group else 1, prompt=10)),
        updates=2,
    )
    simulation.run()
    finished = [event for event in script.events if isinstance(event, base.Finished)]
    assert finished[1].seconds == pytest.approx(0.2 + 2000 * STEP + seconds)
    assert simulation.record.mixed == mixed
    assert simulation.record.staleness == {0: 1, 1: 1}  # by the first token, whatever follows
    assert [event for event in script.events if isinstance(event, base.Published)] == [
        base.Published(1, 0)
    ]


def test_a_broadcast_waits_for_the_last_and_keeps_the_trainer_a_relay_does_not() -> None:
    ends, loading = {}, {}
    lengths = {(0, 0): 1, (0, 1): 2, (1, 0): 2000}
    for transfer, extra in (("broadcast", {}), ("relay", {"push_seconds": 0.5})):
        script = Script(
            (base.Begun, [base.Launch(0, 2, 0), base.Launch(1, 1, 1)]),
            (base.Finished, [base.Emit((NAMES[0],))]),
            (base.Finished, []),
            (base.Trained, [base.Publish(mode="wait"), base.Emit((NAMES[1],))]),
        )
        simulation = Simulation(
            script,
            cluster(replicas=2, transfer=transfer, **extra),
            Fixed(lambda g, m: tokens(lengths[g, m])),
            updates=2,
            picture=True,
        )
        record = simulation.run()
        ends[transfer] = [end for _, end in record.bars]
        bars = simulation.fleet.replicas[0].bars
        loading[transfer] = [at for at, what in bars or () if what == "publish"]
    trained = 0.01 + 7.0 + 0.02
    assert ends["relay"] == pytest.approx([trained, trained + 7.03])
    # Replica 1 runs until 20 s; then both load, and then the trainer goes on.
    assert ends["broadcast"] == pytest.approx([trained, 20.0 + 3.0 + 7.03])
    assert loading["broadcast"] == pytest.approx([20.0])
    assert loading["relay"] == pytest.approx([trained + 0.5])


@pytest.mark.parametrize(("transfer", "loads_at"), [("broadcast", 9.01), ("relay", 2.0)])
def test_a_collective_waits_for_the_trainer(transfer: str, loads_at: float) -> None:
    script = Script(
        (base.Begun, [base.Launch(0, 2, 0)]),
        (base.Finished, [base.Emit((NAMES[0],))]),
        (base.Finished, [base.Publish((1,))]),
        (base.Trained, [base.Emit((NAMES[1],))]),
    )
    extra = {"push_seconds": 0.0} if transfer == "relay" else {}
    simulation = Simulation(
        script,
        cluster(replicas=2, transfer=transfer, **extra),
        Fixed(lambda _, member: tokens((100, 200)[member])),
        updates=2,
        picture=True,
    )
    simulation.run()
    bars = simulation.fleet.replicas[1].bars
    # It is told at 2 s; the trainer works from 1 s to 9.01 s.
    assert bars is not None
    assert [at for at, what in bars if what == "publish"] == pytest.approx([loads_at])


def test_a_replica_that_dies_keeps_nobody_waiting() -> None:
    script = Script(
        (base.Begun, [base.Launch(0, 1, 0), base.Launch(1, 1, 1)]),
        (base.Finished, [base.Emit((NAMES[0],))]),
        (base.Trained, [base.Publish(mode="wait"), base.Launch(2, 1, 0)]),
        (base.Published, []),
        (base.Finished, [base.Emit((base.trajectory_id(2, 0),))]),
    )
    simulation = Simulation(
        script,
        cluster(replicas=2),
        Fixed(lambda group, _: tokens(5000 if group == 1 else 100)),
        updates=2,
    )
    victim = simulation.fleet.replicas[1]
    simulation._after(20.0, lambda _: simulation.fleet.kill(victim))
    record = simulation.run()
    # Replica 1 would have run until 50 s. The other one loads when it is gone.
    assert base.Published(1, 0) in script.events
    assert record.bars[1][0] == pytest.approx(20.0 + 3.0 + 1.0)


def test_a_replica_that_helps_gets_nothing_new() -> None:
    script = Script(
        (base.Begun, [base.Assign(0, "train"), base.Launch(0, 3)]),
        (base.Finished, [base.Assign(0, "generate"), base.Launch(1, 1)]),
    )
    simulation = Simulation(
        script, cluster(replicas=2, max_concurrent=2), Fixed(lambda *_: tokens(100))
    )
    with pytest.raises(ScheduleContractError, match="stuck"):
        simulation.run()
    # Two at once on the other one. When they are done the third is free to go, and a fourth is launched.
    assert [r.busy_s for r in simulation.fleet.replicas.values()] == pytest.approx([1.0, 2.0])


def test_a_relay_has_new_weights_a_little_after_the_update() -> None:
    script = publishing("keep_kv")
    simulation = Simulation(
        script,
        cluster(replicas=1, transfer="relay", push_seconds=2.5),
        Fixed(lambda group, _: tokens(3000 if group else 1)),
        updates=2,
        picture=True,
    )
    simulation.run()
    bars = simulation.fleet.replicas[0].bars
    assert bars is not None
    began = next(at for at, what in bars if what == "publish")
    assert began == pytest.approx(0.01 + 7.02 + 2.5)


# ---- settings ----------------------------------------------------------------------------------------


def test_trajectories_that_no_replica_can_hold_are_refused() -> None:
    plans = LognormalPlans(Workload(max_tokens=50_000), 0)
    with pytest.raises(ConfigError, match=r"50,512 tokens.*holds 49,000.*raise kv_capacity"):
        Simulation(Sync(1), cluster(kv_capacity=50_000), plans)


def test_a_measured_step_is_used_where_none_is_given() -> None:
    plans = Fixed(lambda *_: tokens(100))
    plans.seconds_per_token = 0.5
    assert Simulation(Sync(1), Cluster(), plans).cluster.step_seconds == 0.5
    assert Simulation(Sync(1), cluster(), plans).cluster.step_seconds == STEP
    plans.seconds_per_token = 0.0
    assert Simulation(Sync(1), Cluster(), plans).cluster.step_seconds == 0.02


def test_one_seed_gives_one_run() -> None:
    def run(seed: int) -> dict[str, Any]:
        simulation = Simulation(
            Sync(32, 4),
            cluster(replicas=3, failure=0.1, death_hours=0.02, repair_seconds=5.0),
            LognormalPlans(Workload(median_tokens=300, max_tokens=3000, tool_p50=0.3), seed),
            seed=seed,
            updates=2,
        )
        simulation.run()
        return make_report(simulation, "sync").to_dict()

    assert run(1) == run(1)
    assert run(1) != run(2)
