"""What a schedule may do with simulated trajectories and replicas, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from agentic_gym.errors import ScheduleContractError
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
        self.asked: list[tuple[int, int, int]] = []

    def plan(self, task: int, group: int, member: int) -> Plan:
        self.asked.append((task, group, member))
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


def simulate(
    script: Script, machine: Cluster, make: Callable[[int, int], Plan], **keywords: Any
) -> Simulation:
    simulation = Simulation(script, machine, Fixed(make), updates=1, **keywords)
    simulation.run()
    return simulation


# ---- what the schedule does with trajectories --------------------------------------------------------


def test_what_is_parked_keeps_its_tokens_and_goes_on_later() -> None:
    script = Script(
        (base.Begun, [base.Launch(0, 2)]),
        (base.Finished, [base.Park(NAMES[1]), base.Emit((NAMES[0],))]),
        (base.Trained, [base.Resume(NAMES[1])]),
        (base.Finished, [base.Emit((NAMES[1],))]),
    )
    simulation = Simulation(
        script,
        cluster(replicas=1),
        Fixed(lambda _, member: tokens((100, 1000)[member])),
        updates=2,
    )
    record = simulation.run()
    finished = [event for event in script.events if isinstance(event, base.Finished)]
    assert finished[1].seconds == pytest.approx(10.0)  # without the time in which it was parked
    assert record.bars[1][0] == pytest.approx(1.0 + 8.01 + 9.0)
    assert record.parked == pytest.approx(8.01)
    assert record.staleness == {0: 1, 1: 1}


def test_a_tool_call_goes_on_while_its_trajectory_is_parked() -> None:
    plan = tokens(100, 100, seconds=30.0)
    script = Script(
        (base.Begun, [base.Launch(0, 1), base.Launch(1, 1)]),
        (base.Finished, [base.Park(NAMES[0]), base.Emit((base.trajectory_id(1, 0),))]),
        (base.Trained, [base.Resume(NAMES[0])]),
        (base.Finished, [base.Emit((NAMES[0],))]),
    )
    simulation = Simulation(
        script,
        cluster(replicas=1),
        Fixed(lambda group, _: tokens(300) if group else plan),
        updates=2,
    )
    record = simulation.run()
    # Called at 1 s, parked at 3 s, resumed at 13.01 s, answered at 31 s all the same.
    assert record.bars[1][0] == pytest.approx(31.0 + 1.0 + 30.0)


@pytest.mark.parametrize(("rate", "seconds"), [(0.0, 600 / 100.0), (1000.0, 600 / 1000.0)])
def test_a_moved_trajectory_takes_its_prefix_along(rate: float, seconds: float) -> None:
    script = Script(
        (base.Begun, [base.Launch(0, 1, 0), base.Launch(1, 1, 0)]),
        (base.Finished, [base.Migrate(NAMES[0], 1)]),
        (base.Finished, [base.Emit((NAMES[0],))]),
    )
    machine = cluster(replicas=2, prefill_tokens_per_s=100.0, migrate_tokens_per_s=rate)
    simulation = simulate(
        script, machine, lambda group, _: tokens(500 if group else 1000, prompt=100)
    )
    expected = 2.0 + 1000 * STEP + seconds  # both prompts, the decoding, the move
    assert simulation.record.bars[0][0] == pytest.approx(expected)
    assert simulation.fleet.replicas[1].busy_s == pytest.approx(seconds + 500 * STEP)


def test_a_prefix_is_of_no_use_to_other_weights() -> None:
    script = Script(
        (base.Begun, [base.Launch(0, 1, 0), base.Launch(1, 1, 0)]),
        (base.Finished, [base.Emit((base.trajectory_id(1, 0),))]),
        (base.Trained, [base.Publish((1,))]),
        (base.Published, [base.Migrate(NAMES[0], 1)]),
        (base.Finished, [base.Emit((NAMES[0],))]),
    )
    machine = cluster(replicas=2, prefill_tokens_per_s=100.0, migrate_tokens_per_s=1e9)
    simulation = Simulation(
        script,
        machine,
        Fixed(lambda group, _: tokens(3 if group else 2000, prompt=100)),
        updates=2,
    )
    simulation.run()
    published = 2.0 + 0.03 + 7.0 + 1.03 + 3.0
    context = 100 + (published - 2.0) / STEP
    assert simulation.record.bars[1][0] == pytest.approx(2.0 + 2000 * STEP + context / 100)


def test_a_group_may_play_an_earlier_task_again() -> None:
    plans = Fixed(lambda *_: tokens(1))
    script = Script(
        (base.Begun, [base.Launch(0, 1), base.Launch(1, 1), base.Launch(2, 1, task_of=0)])
    )
    with pytest.raises(ScheduleContractError, match="stuck"):
        Simulation(script, cluster(replicas=1), plans).run()
    assert plans.asked == [(0, 0, 0), (1, 1, 0), (0, 2, 0)]


def test_a_replica_that_helps_shortens_the_update() -> None:
    script = Script(
        (base.Begun, [base.Launch(0, 1, 0)]),
        (base.Finished, [base.Emit((NAMES[0],)), base.Assign(1, "train"), base.Assign(2, "train")]),
    )
    machine = cluster(replicas=3, trainers=2, train_seconds_per_token=0.0)
    simulation = simulate(script, machine, lambda *_: tokens(100))
    assert simulation.record.updates == pytest.approx([1.0 + 7.0 / 2])
    assert simulation.fleet.replicas[1].lent_s == pytest.approx(3.5)


class Relaunching(Script):
    """Launches another when the second has finished."""

    def handle(self, event: base.Event) -> list[base.Action]:
        actions = super().handle(event)
        late = isinstance(event, base.Finished) and event.trajectory_id == NAMES[1]
        return [*actions, base.Launch(1, 1, 0)] if late else actions


def test_a_helper_that_dies_helps_no_more() -> None:
    script = Script(
        (base.Begun, [base.Launch(0, 1, 0)]),
        (base.Finished, [base.Emit((NAMES[0],)), base.Assign(1, "train")]),
    )
    machine = cluster(
        replicas=2, trainers=1, train_seconds_per_token=0.0, death_hours=1e9, repair_seconds=1e9
    )
    simulation = Simulation(script, machine, Fixed(lambda *_: tokens(100)), updates=1)
    simulation._after(3.0, simulation._die, 1)
    # Two train from 1 to 3 s, which is 4 s of the work; one does the other 3 s.
    assert simulation.run().updates == pytest.approx([6.0])


def test_places_that_come_back_are_taken_at_once() -> None:
    for back in ("revive", "assign"):
        script = Script((base.Begun, [base.Launch(0, 3)]))
        simulation = Simulation(
            script, cluster(replicas=2, max_concurrent=1), Fixed(lambda *_: tokens(1000))
        )
        replica = simulation.fleet.replicas[1]
        if back == "revive":
            simulation.fleet.kill(replica)
        else:
            simulation.fleet.assign(replica, train=True)
        simulation._tell(base.Begun())
        assert len(replica.jobs) == 0
        if back == "revive":
            simulation.fleet.revive(replica)
        else:
            simulation.fleet.assign(replica, train=False)
        assert list(replica.jobs) == [simulation.ledger.jobs[NAMES[1]]]


def test_a_lost_trajectory_is_noticed() -> None:
    simulation = Simulation(Sync(2), cluster(), Fixed(lambda *_: tokens(10)), updates=1)
    simulation.run()
    simulation.ledger.check()
    simulation.ledger.launched += 1
    with pytest.raises(ScheduleContractError, match="3 trajectories were launched, and these are"):
        simulation.ledger.check()
    simulation.ledger.launched -= 1
    simulation.ledger.counts["parked"] += 1
    with pytest.raises(ScheduleContractError, match="'trained': 2"):
        simulation.ledger.check()


def test_helpers_that_come_and_go_share_the_work() -> None:
    script = Relaunching(
        (base.Begun, [base.Launch(0, 2, 0)]),
        (base.Finished, [base.Emit((NAMES[0],))]),
        (base.Finished, [base.Assign(1, "train")]),
        (base.Finished, [base.Assign(1, "generate")]),
    )
    machine = cluster(replicas=2, trainers=1, train_seconds_per_token=0.0)
    simulation = simulate(script, machine, lambda g, m: tokens(100 if (g, m) != (0, 1) else 300))
    # Trains alone from 1 to 3 s, with a helper from 3 to 4 s (as two), then alone: 7 = 2 + 2 + 3.
    assert simulation.record.updates == pytest.approx([4.0 + 3.0])


# ---- failures and deaths -------------------------------------------------------------------------


def test_what_breaks_is_tried_again_and_the_ledger_says_so() -> None:
    simulation = Simulation(
        Sync(40, 4, max_retries=50),
        cluster(failure=0.3),
        Fixed(lambda *_: tokens(50, 50, seconds=1.0)),
        updates=3,
        seed=5,
    )
    record = simulation.run()
    assert record.trajectories == 120
    assert simulation.ledger.launched == 120
    whole = 100 * STEP + 2.0
    assert max(record.updates) > 2 * whole


def test_a_group_that_keeps_breaking_is_dropped_under_one_reason() -> None:
    simulation = Simulation(
        Sync(8, 2, max_retries=0, max_lost_groups=10**6),
        cluster(failure=0.4),
        Fixed(lambda *_: tokens(50)),
        updates=2,
    )
    simulation.run()
    dropped = simulation.ledger.dropped
    assert list(dropped) == ["… broke 1 times, last: sandbox died"]
    assert simulation.ledger.launched == 16 + dropped.total()


def test_replicas_die_and_return_and_nothing_is_lost() -> None:
    simulation = Simulation(
        Sync(64, 4),
        cluster(replicas=4, death_hours=0.01, repair_seconds=20.0),
        LognormalPlans(Workload(median_tokens=500, max_tokens=4000), 0),
        updates=4,
    )
    simulation.run()
    report = make_report(simulation, "sync")
    assert report.replicas["dead"] > 0.1
    assert report.ledger == {"launched": 256, "trained": 256}


def test_placed_ones_are_parked_and_free_ones_move_when_a_replica_dies() -> None:
    script = Script((base.Begun, [base.Launch(0, 1, 0), base.Launch(1, 2), base.Launch(2, 1, 1)]))
    simulation = Simulation(script, cluster(replicas=2), Fixed(lambda *_: tokens(1000)))
    simulation._tell(base.Begun())  # run() would go on until it is stuck
    simulation.fleet.kill(simulation.fleet.replicas[0])
    states = {name: job.state for name, job in simulation.ledger.jobs.items()}
    assert states[NAMES[0]] == "parked"
    assert [states[base.trajectory_id(1, member)] for member in range(2)] == ["carried"] * 2
    assert len(simulation.fleet.replicas[1].jobs) == 3
    simulation.fleet.version = 4
    simulation.fleet.revive(simulation.fleet.replicas[0])
    assert script.events[-2:] == [base.ReplicaDown(0), base.ReplicaUp(0, 4)]


# ---- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (base.Launch(1, 1), "group 1 is launched where 0 is next"),
        (base.Launch(0, 1, task_of=0), "the task of group 0 is asked for"),
        (base.Launch(0, 1, replica=9), "replica 9 is addressed, which is gone"),
        (base.Resume(NAMES[0]), "never launched"),
        (base.Emit(()), "an empty batch"),
        (base.Emit((NAMES[0],)), "never launched"),
        (base.Publish((7,)), "replica 7"),
        (base.Halt("enough"), "gives up: enough"),
    ],
)
def test_a_breach_of_the_contract_ends_the_run(action: base.Action, message: str) -> None:
    simulation = Simulation(
        Script((base.Begun, [action])), cluster(replicas=1), Fixed(lambda *_: tokens(1))
    )
    with pytest.raises(ScheduleContractError, match=message):
        simulation.run()


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([base.Emit((NAMES[1],))], "is carried"),
        ([base.Emit((NAMES[0],)), base.Emit((NAMES[0],))], "while the trainer has one"),
        ([base.Emit((NAMES[0], NAMES[0]))], "twice in a batch"),
        ([base.Resume(NAMES[1])], "is carried"),
        ([base.Park(NAMES[0])], "is finished"),
        ([base.Drop(NAMES[0], "")], "without a reason"),
        ([base.Drop(NAMES[0], "why not"), base.Park(NAMES[0])], "or is over"),
    ],
)
def test_an_action_must_fit_the_state(actions: list[base.Action], message: str) -> None:
    script = Script((base.Begun, [base.Launch(0, 2)]), (base.Finished, actions))
    with pytest.raises(ScheduleContractError, match=message):
        simulate(script, cluster(replicas=1), lambda _, member: tokens((10, 1000)[member]))


def test_what_broke_must_be_answered() -> None:
    script = Script((base.Begun, [base.Launch(0, 1)]))
    with pytest.raises(ScheduleContractError, match="neither retried nor dropped"):
        simulate(script, cluster(failure=0.999), lambda *_: tokens(10))
