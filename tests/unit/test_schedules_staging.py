"""Which groups a schedule says to be certain before the batch is whole."""

from __future__ import annotations

from typing import Any

import pytest

from agentic_gym.errors import ConfigError, ScheduleContractError
from agentic_gym.trainers.schedules import base
from agentic_gym.trainers.schedules.base import Emit, Event, Finished, Stage, trajectory_id
from agentic_gym.trainers.schedules.checking import Promises, Weather, check_schedule
from agentic_gym.trainers.schedules.registry import make_schedule, schedule_options
from agentic_gym.trainers.schedules.sync import Sync
from agentic_gym.trainers.schedules.tail_batching import TailBatching
from agentic_gym.trainers.simulation.cluster import Cluster
from agentic_gym.trainers.simulation.driver import Simulation
from agentic_gym.trainers.simulation.workload import LognormalPlans, Workload


def group(number: int, size: int = 2) -> tuple[str, ...]:
    return tuple(trajectory_id(number, member) for member in range(size))


def finish(schedule: base.Schedule, *names: str) -> list[base.Action]:
    """All of them; returns every action that is no launch."""
    actions = [action for one in names for action in schedule.handle(Finished(one, 1.0))]
    return [action for action in actions if not isinstance(action, base.Launch)]


def test_a_synchronous_batch_is_staged_group_by_group_but_the_last() -> None:
    schedule = Sync(6, 2, stage=True)
    schedule.handle(base.Begun())
    assert finish(schedule, *group(2)) == [Stage(group(2))]
    assert finish(schedule, *group(0)) == [Stage(group(0))]
    assert finish(schedule, *group(1)) == [Emit((*group(0), *group(1), *group(2)))]
    schedule.handle(base.Trained(1))
    schedule.handle(base.Published(1))
    assert finish(schedule, *group(4)) == [Stage(group(4))]


def test_a_group_that_may_be_left_for_a_later_batch_is_not_staged() -> None:
    schedule = Sync(2, stage=True, max_retries=0)
    # Of another schedule, which ran ahead: groups 0 and 1 are the next batch, until one is lost.
    known = [base.Known(trajectory_id(number, 0)) for number in range(3)]
    assert Stage not in map(type, schedule.handle(base.Begun(known[:2], known[2:], 3)))
    actions = schedule.handle(base.Failed(known[1].trajectory_id, "no disk"))
    assert actions[-1] == Stage((known[2].trajectory_id,))


def test_after_a_restart_what_is_finished_is_staged_at_once() -> None:
    known = [base.Known(name) for number in range(3) for name in group(number)]
    begun = base.Begun(known[:1], known[1:], 3)
    assert Sync(6, 2, stage=True).handle(begun)[-1] == Stage((*group(1), *group(2)))


def test_nothing_is_staged_unless_it_is_asked_for() -> None:
    for schedule in (Sync(4, 2), TailBatching(4, 2)):
        schedule.handle(base.Begun())
        assert finish(schedule, *group(1)) == []


def test_a_short_round_stages_whatever_is_complete() -> None:
    schedule = TailBatching(4, 2, prompt_redundancy=2.0, stage=True)
    schedule.handle(base.Begun())
    assert finish(schedule, *group(3)) == [Stage(group(3))]
    assert finish(schedule, *group(1))[0] == Emit((*group(1), *group(3)))
    # Finished beyond the batch, while the trainer has it: staged when the next round begins.
    assert finish(schedule, *group(0)) == []
    schedule.handle(base.Trained(1))
    assert schedule.handle(base.Published(1))[-1] == Stage(group(0))


def test_a_long_round_stages_its_own_groups_alone() -> None:
    options: dict[str, Any] = {"prompt_redundancy": 2.0, "max_wait_rounds": 0, "stage": True}
    schedule = TailBatching(2, **options)
    schedule.handle(base.Begun())
    finish(schedule, *group(2, 1), *group(3, 1))  # 0 and 1 are left
    schedule.handle(base.Trained(1))
    schedule.handle(base.Published(1))
    assert finish(schedule, *group(1, 1)) == [Stage(group(1, 1))]
    assert finish(schedule, *group(0, 1))[0] == Emit((*group(0, 1), *group(1, 1)))


def test_a_result_on_its_way_that_is_not_of_the_long_round_is_not_staged() -> None:
    options: dict[str, Any] = {"prompt_redundancy": 3.0, "max_wait_rounds": 0, "stage": True}
    schedule = TailBatching(1, **options)
    schedule.handle(base.Begun())
    finish(schedule, *group(2, 1))  # 0 and 1 are left, the round takes 0
    schedule.handle(base.Trained(1))
    schedule.handle(base.Published(1))
    assert finish(schedule, *group(1, 1)) == []
    assert finish(schedule, *group(0, 1)) == [Emit(group(0, 1))]


@pytest.mark.parametrize("name", ["bounded_async", "streaming", "relay"])
def test_a_schedule_that_hands_batches_over_at_once_refuses_to_stage(name: str) -> None:
    with pytest.raises(ConfigError, match=r"as soon as it exists.*ppo\.stream"):
        make_schedule(name, 4, stage=True)


def test_staging_is_given_by_the_run_and_reaches_a_plan() -> None:
    assert "stage" not in schedule_options("sync") | schedule_options("tail_batching")
    rules = [{"schedule": "relay", "rate": 0.9}]
    plan = make_schedule("plan", 2, stage=True, rules=rules)
    plan.handle(base.Begun())
    assert finish(plan, *group(1, 1)) == [Stage(group(1, 1))]


def test_a_simulated_run_ignores_what_is_staged() -> None:
    plans = LognormalPlans(Workload(median_tokens=300, max_tokens=3000), 0)
    seconds = []
    for stage in (False, True):
        schedule = Sync(8, 2, stage=stage)
        seconds.append(Simulation(schedule, Cluster(), plans, updates=3).run().updates)
    assert len(seconds[0]) == 3
    assert seconds[0] == seconds[1]


class Liar:
    """Spoils what a synchronous schedule stages."""

    def __init__(self, lie: str) -> None:
        self._inner = Sync(4, 2, stage=True)
        self._lie = lie

    def handle(self, event: Event) -> list[base.Action]:
        actions = self._inner.handle(event)
        staged = [action for action in actions if isinstance(action, Stage)]
        emitted = [action for action in actions if isinstance(action, Emit)]
        match self._lie:
            case "again" if staged:
                actions += staged
            case "half" if staged:
                actions[-1] = Stage(staged[0].trajectory_ids[:1])
            case "late" if emitted:
                actions.append(Stage(emitted[0].trajectory_ids[:2]))
            case "unfinished" if isinstance(event, base.Begun):
                actions.append(Stage(group(0)))
            case "training" if emitted:
                # Of the next batch, which is there already, but the trainer has this one.
                actions[-1] = Emit(emitted[0].trajectory_ids)
                actions.append(Stage(()))
        return actions

    def state_dict(self) -> dict[str, Any]:
        return self._inner.state_dict()

    def load_state_dict(self, state: Any) -> None:
        self._inner.load_state_dict(state)


class Forgetful(TailBatching):
    """Stages every group that is complete, also in long rounds."""

    def handle(self, event: Event) -> list[base.Action]:
        actions = super().handle(event)
        if self._batch is not None and not self._training:
            actions += self._stager.stage(self._book.complete)
        return actions


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        ("again", "some of them again"),
        ("half", "no whole groups"),
        ("late", "that is batch"),
        ("unfinished", "that is waiting"),
        ("training", "while the trainer has a batch"),
    ],
)
def test_the_check_finds_what_is_staged_wrongly(lie: str, words: str) -> None:
    with pytest.raises(ScheduleContractError, match=words):
        check_schedule(lambda: Liar(lie), Promises(4, 2), updates=3)


def test_the_check_finds_what_was_staged_and_is_not_in_the_batch() -> None:
    def make() -> TailBatching:
        return Forgetful(2, prompt_redundancy=4.0, max_wait_rounds=1, stage=True)

    late = Weather(echo=0.9)  # parked episodes finish all the same
    with pytest.raises(ScheduleContractError, match="staged and are not in the next batch"):
        check_schedule(make, Promises(2), weather=late, updates=40)
