"""Groups that the driver refuses once they are finished."""

from __future__ import annotations

from typing import Any

import pytest

from agentic_gym.errors import ConfigError, ScheduleContractError
from agentic_gym.trainers.schedules import base
from agentic_gym.trainers.schedules.base import (
    Action,
    Begun,
    Drop,
    Emit,
    Event,
    Failed,
    Finished,
    Halt,
    Known,
    Launch,
    Park,
    Publish,
    Published,
    ReplicaDown,
    ReplicaUp,
    Resume,
    Retry,
    Trained,
)
from agentic_gym.trainers.schedules.bounded_async import BoundedAsync
from agentic_gym.trainers.schedules.checking import Promises, Weather, check_schedule
from agentic_gym.trainers.schedules.groups import State
from agentic_gym.trainers.schedules.model_refusals import REASON
from agentic_gym.trainers.schedules.plan import Switching
from agentic_gym.trainers.schedules.relay import Relay
from agentic_gym.trainers.schedules.streaming import Streaming
from agentic_gym.trainers.schedules.sync import Sync
from agentic_gym.trainers.schedules.tail_batching import TailBatching


def name(group: int, member: int = 0) -> str:
    return base.trajectory_id(group, member)


def refused(group: int, member: int = 0, seconds: float = 0.0) -> Failed:
    return Failed(name(group, member), "equal", final=True, seconds=seconds)


def dropped(group: int, size: int = 1) -> list[Action]:
    return [Drop(name(group, member), "equal") for member in range(size)]


def started(schedule: Any) -> Any:
    schedule.handle(Begun())
    return schedule


def finish(schedule: Any, *names: str) -> list[Action]:
    """What the last of these results brings about."""
    actions: list[Action] = []
    for each in names:
        actions = schedule.handle(Finished(each))
    return actions


# ---- sync ----------------------------------------------------------------------------------------


def test_a_refused_group_is_dropped_whole_and_another_is_launched() -> None:
    schedule = started(Sync(4, 2))
    finish(schedule, name(0, 0))
    assert schedule.handle(refused(0, 1)) == [*dropped(0, 2), Launch(2, 2)]
    for late in (refused(0, 1), Finished(name(0, 1))):
        assert schedule.handle(late) == []
    actions = finish(schedule, name(2, 0), name(2, 1), name(1, 0), name(1, 1))
    assert actions == [Emit((name(1, 0), name(1, 1), name(2, 0), name(2, 1)))]


def test_what_has_finished_is_not_refused_any_more() -> None:
    schedule = started(Sync(4, 2))
    finish(schedule, name(0, 0), name(0, 1))
    assert schedule.handle(refused(0, 1)) == []
    assert finish(schedule, name(1, 0), name(1, 1))[0] == Emit(
        (name(0, 0), name(0, 1), name(1, 0), name(1, 1))
    )


def test_a_refusal_is_no_attempt_and_says_that_the_machinery_works() -> None:
    schedule = started(Sync(2, max_retries=0, max_lost_groups=1))
    broken = [schedule.handle(Failed(name(0), "no disk"))]
    assert schedule.handle(refused(1)) == [*dropped(1), Launch(3, 1)]
    broken += [schedule.handle(Failed(name(group), "no disk")) for group in (2, 3)]
    assert [isinstance(actions[-1], Halt) for actions in broken] == [False, False, True]


def test_a_verdict_may_follow_a_restart() -> None:
    schedule = Sync(2, 2)
    begun = Begun([Known(name(0, 1))], [Known(name(0, 0))], 1)
    assert schedule.handle(begun) == [Resume(name(0, 1))]
    assert schedule.handle(refused(0, 1)) == [*dropped(0, 2), Launch(1, 2)]


# ---- bounded staleness ---------------------------------------------------------------------------


def test_a_refused_group_frees_its_place_in_the_window() -> None:
    schedule = BoundedAsync(2, 1, max_staleness=1, max_concurrent=100)
    assert len(schedule.handle(Begun())) == 4
    assert schedule.handle(refused(1)) == [*dropped(1), Launch(4, 1)]
    assert finish(schedule, name(0), name(2)) == [Emit((name(0), name(2)))]
    # Of version 0, one batch more can be trained in time.
    assert schedule.handle(refused(3)) == [*dropped(3), Launch(5, 1)]
    assert schedule.handle(Trained(1)) == [Publish(mode="keep")]
    # Both that are due are there; of version 1, there is room for a batch.
    assert schedule.handle(Published(1)) == [Launch(6, 1), Launch(7, 1)]


def test_a_refused_group_frees_its_place_on_the_engine() -> None:
    schedule = BoundedAsync(4, 2, max_staleness=2, max_concurrent=2)
    assert schedule.handle(Begun()) == [Launch(0, 2)]
    assert finish(schedule, name(0, 1)) == []
    assert schedule.handle(refused(0, 0)) == [*dropped(0, 2), Launch(1, 2)]


def test_what_is_held_may_be_refused() -> None:
    schedule = BoundedAsync(1, max_staleness=0, max_concurrent=8)
    schedule.handle(Begun(version=5, replicas={0: 5}))
    schedule.handle(ReplicaUp(1, 3))
    assert schedule.handle(Failed(name(0), "no disk")) == [Retry(name(0)), Park(name(0))]
    assert schedule.handle(refused(0)) == dropped(0)  # nothing is launched for old weights
    assert schedule.handle(refused(0)) == []
    assert schedule.handle(Published(5, 1)) == [Launch(1, 1)]


# ---- tail batching -------------------------------------------------------------------------------


def test_rounds_replace_what_is_refused_and_the_queue_forgets_it() -> None:
    schedule = started(TailBatching(1, prompt_redundancy=3.0))
    assert schedule.handle(refused(0)) == [*dropped(0), Launch(3, 1)]
    assert finish(schedule, name(1)) == [Emit((name(1),)), Park(name(2)), Park(name(3))]
    assert schedule.handle(refused(2)) == dropped(2)
    assert schedule.long_queue == 1
    schedule.handle(Trained(1))
    assert schedule.handle(Published(1)) == [Resume(name(3))]
    assert schedule.handle(refused(3)) == [*dropped(3), Launch(4, 1)]
    assert finish(schedule, name(4)) == [Emit((name(4),))]
    assert schedule.num_long_rounds == 1


def test_what_races_is_refused_with_its_group() -> None:
    schedule = started(TailBatching(2, 2, prompt_redundancy=1.0, response_redundancy=2.0))
    finish(schedule, name(0, 2))
    assert schedule.handle(refused(0, 0)) == [*dropped(0, 4), Launch(1, 4)]


def test_how_long_a_refused_group_took_is_observed() -> None:
    schedule = started(TailBatching(4, 2, prompt_redundancy=1.0, max_retries=0))
    schedule.handle(Finished(name(0, 0), 3.0))
    schedule.handle(Finished(name(1, 0), 7.0))
    for event in (refused(0, 1, 5.0), refused(0, 1, 5.0), refused(1, 1, 2.0)):
        schedule.handle(event)
    schedule.handle(Failed(name(2, 0), "no disk", seconds=9.0))
    state = schedule.state_dict()
    assert state["rate"]["recent"] == [5.0, 7.0]
    assert state["seconds"] == {}


# ---- several versions ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "schedule",
    [
        Streaming(1, window=1, max_concurrent=2),
        Relay(1, max_concurrent=2, roofline_batch=2, max_staleness=1),
    ],
    ids=["streaming", "relay"],
)
def test_what_waits_for_a_replica_may_be_refused(schedule: Any) -> None:
    assert schedule.handle(Begun()) == [Launch(0, 1, 0), Launch(1, 1, 0)]
    schedule.handle(ReplicaDown(0))
    assert schedule.handle(Failed(name(0), "connection reset")) == []
    assert schedule.handle(refused(0)) == dropped(0)
    assert schedule.handle(refused(0)) == []
    assert schedule.handle(ReplicaUp(0, 0)) == [Resume(name(1), 0), Launch(2, 1, 0)]
    assert schedule.handle(refused(1)) == [*dropped(1), Launch(3, 1, 0)]
    assert finish(schedule, name(3)) == [Emit((name(3),))]
    assert schedule.handle(refused(3)) == []


def test_a_replica_that_a_refusal_leaves_without_work_loads_newer_weights() -> None:
    schedule = Streaming(2, window=2, max_concurrent=3)
    schedule.handle(Begun(replicas={0: 0, 1: 0}))
    finish(schedule, name(0), name(1))
    assert schedule.handle(Trained(1))[-1] == Publish((1,))
    schedule.handle(Published(1, 1))
    finish(schedule, name(2), name(3))
    assert schedule.handle(refused(4))[:2] == [*dropped(4), Publish((0,))]


def test_a_plan_passes_a_refusal_on_and_observes_how_long_it_took() -> None:
    plan = started(Switching({"sync": lambda: Sync(2, 1)}, "sync"))
    assert plan.handle(refused(0, seconds=4.0)) == [*dropped(0), Launch(2, 1)]
    assert plan.handle(refused(0, seconds=4.0)) == []
    plan.handle(Failed(name(1), "no disk", seconds=9.0))
    assert plan.state_dict()["tail"]["recent"] == [4.0]


# ---- the check -----------------------------------------------------------------------------------


class Liar(Sync):
    """Does something wrong with a refusal."""

    def __init__(self, lie: str) -> None:
        super().__init__(4, 2)
        self._lie = lie

    def handle(self, event: Event) -> list[Action]:
        if not (isinstance(event, Failed) and event.final):
            return super().handle(event)
        match self._lie:
            case "again":
                return super().handle(Failed(event.trajectory_id, event.reason))
            case "silent":
                return []
            case "result":
                return super().handle(Finished(event.trajectory_id))
            case "half":
                return super().handle(event)[1:]
            case "reason":
                actions = super().handle(event)
                actions[0] = Drop(event.trajectory_id[:-2] + "00", "it broke")
                return actions
        group = base.parse_id(event.trajectory_id)[0]
        other = next(number for number in self._book.groups if number != group)
        return super().handle(event) + self._book.drop(other, REASON)


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        ("again", "Retry.* of a trajectory that is refused"),
        ("silent", "is refused .*, and it is (finished|refused);"),
        ("result", "is refused .*, and it is (finished|refused);"),
        ("half", "is refused .*, and it is (finished|refused);"),
        ("reason", r"is refused .*, and it is dropped \(it broke\)"),
        ("other", "is dropped .*, but was not refused"),
    ],
)
def test_the_check_finds_what_is_done_wrongly(lie: str, words: str) -> None:
    with pytest.raises(ScheduleContractError, match=words):
        check_schedule(lambda: Liar(lie), Promises(4, 2), weather=Weather(refusal=0.3))


def test_a_refusal_comes_again_and_for_what_is_parked() -> None:
    seen: set[str] = set()

    class Watched(TailBatching):
        def handle(self, event: Event) -> list[Action]:
            if isinstance(event, Failed) and event.final:
                member = self._book.find(event.trajectory_id)
                seen.add("again" if member is None else member.state.value)
            return super().handle(event)

    storm = Weather(restart=0.1, echo=0.5, refusal=0.4)
    report = check_schedule(lambda: Watched(4, 2), Promises(4, 2), weather=storm, updates=30)
    assert seen == {"again", State.RUNNING.value, State.PARKED.value}
    assert set(report.reasons.values()) == {REASON}


def test_as_many_are_refused_as_the_weather_says() -> None:
    report = check_schedule(
        lambda: Sync(4, 2), Promises(4, 2), weather=Weather(refusal=0.2), updates=100
    )
    refusals = len(report.reasons) / 2
    assert refusals / (refusals + 200) == pytest.approx(0.2, abs=0.06)


def test_without_refusals_none_comes() -> None:
    report = check_schedule(lambda: Sync(4, 2), Promises(4, 2), weather=Weather(echo=0.5))
    assert report.reasons == {}


@pytest.mark.parametrize("rate", [-0.1, 1.0])
def test_where_all_is_refused_no_batch_would_be_whole(rate: float) -> None:
    with pytest.raises(ConfigError, match="must be a probability below 1"):
        check_schedule(lambda: Sync(1), Promises(1), weather=Weather(refusal=rate))
