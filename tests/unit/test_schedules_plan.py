from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pydantic
import pytest

from agentic_gym.errors import ConfigError
from agentic_gym.trainers.schedules import base
from agentic_gym.trainers.schedules.base import (
    Action,
    Assign,
    Begun,
    Drop,
    Emit,
    Event,
    Failed,
    Finished,
    Known,
    Launch,
    Migrate,
    Park,
    Publish,
    Published,
    ReplicaDown,
    ReplicaUp,
    Resume,
    Retry,
    Schedule,
    Tick,
    Trained,
)
from agentic_gym.trainers.schedules.bounded_async import BoundedAsync
from agentic_gym.trainers.schedules.plan import Switching
from agentic_gym.trainers.schedules.plan_rules import (
    Boundary,
    HourWindow,
    LongTail,
    QueuePressure,
    Rule,
    WeightRelease,
)
from agentic_gym.trainers.schedules.sync import Sync


def name(group: int, member: int = 0) -> str:
    return base.trajectory_id(group, member)


class Scripted:
    """Answers each event with the next actions of a list, and remembers the events."""

    def __init__(self, *answers: list[Action]) -> None:
        self.answers = list(answers)
        self.events: list[Event] = []
        self.learnt = 0

    def handle(self, event: Event) -> list[Action]:
        self.events.append(event)
        return self.answers.pop(0) if self.answers else []

    def state_dict(self) -> dict[str, Any]:
        return {"learnt": self.learnt}

    def load_state_dict(self, state: Any) -> None:
        self.learnt = state["learnt"]


def between(first: Schedule, second: Schedule, *rules: Rule, **options: Any) -> Switching:
    makers: dict[str, Callable[[], Schedule]] = {"first": lambda: first, "second": lambda: second}
    return Switching(makers, "first", rules, **{"min_updates": 1} | options)


AT_ONE = WeightRelease("second", at=(1,))


def test_what_runs_is_parked_and_taken_over_by_the_next_schedule() -> None:
    makers: dict[str, Callable[[], Schedule]] = {
        "async": partial(BoundedAsync, 1, max_staleness=2, max_concurrent=9),
        "sync": partial(Sync, 1),
    }
    made = Switching(makers, "async", [WeightRelease("sync", at=(1,))], min_updates=1)
    assert made.handle(Begun()) == [Launch(0, 1), Launch(1, 1), Launch(2, 1)]
    assert made.handle(Finished(name(1))) == [Emit((name(1),))]
    assert made.handle(Trained(1)) == [
        Park(name(0)),
        Park(name(2)),
        Publish((0,)),
        Resume(name(0)),
        Resume(name(2)),
    ]
    assert made.handle(Finished(name(2))) == []  # on its way when it was parked
    assert made.handle(Published(1)) == []
    assert made.handle(Finished(name(0))) == [Emit((name(0),))]
    # Back again, with what Sync has left.
    assert made.handle(Trained(2)) == [Publish((0,)), Emit((name(2),)), Launch(3, 1)]
    assert made.handle(Published(2)) == [Launch(4, 1)]
    assert made.handle(Finished(name(1))) == []


def test_the_next_schedule_hears_what_a_restart_would_tell_it() -> None:
    on_one: list[Action] = [Launch(group, 1, replica=1) for group in (9, 10, 11)]
    first = Scripted(
        [Resume(name(7)), *on_one, Launch(12, 1), Launch(13, 1, task_of=3)],
        [],
        [Migrate(name(10), 0), Retry(name(12), replica=1), Retry(name(11))],
        [],
        [Drop(name(13), "broke"), Park(name(7))],
        [],
        [Emit((name(8),))],
    )
    second = Scripted()
    made = between(first, second, AT_ONE)
    events: list[Event] = [
        Begun([Known(name(7), 4)], [Known(name(8), 5)], 9, 6, {0: 5, 1: 6, 2: 6}),
        ReplicaUp(3, 4),
        Tick(1.0, 3.0),
        Published(6, 0),
        Tick(2.0, 3.0),
        ReplicaDown(1),
        Finished(name(8)),
        Published(6, 1),  # it is gone
        Trained(1),
    ]
    actions = [made.handle(event) for event in events]
    # Replica 1 took 9 and 12 down with it; 7 is parked already.
    assert actions[-1] == [Park(name(10)), Park(name(11))]
    versions = {7: 4, 9: 6, 10: 6, 11: 4, 12: 6}
    parked = [Known(name(group), version) for group, version in versions.items()]
    assert second.events == [Begun(parked, [], 14, 1, {0: 6, 2: 6, 3: 4})]
    assert first.events == events[:-1]


def test_a_trajectory_is_as_old_as_the_oldest_weights_that_may_sample_it() -> None:
    first, second = Scripted([Launch(0, 1), Launch(1, 1, replica=1)], [], [Emit(())]), Scripted()
    made = between(first, second, AT_ONE)
    made.handle(Begun(version=3, replicas={0: 2, 1: 3}))
    made.handle(Finished(name(1)))
    made.handle(Trained(1))
    assert second.events[0] == Begun([Known(name(0), 2)], [Known(name(1), 3)], 2, 1, {0: 2, 1: 3})


def test_replicas_that_help_the_trainer_generate_again() -> None:
    lent: list[Action] = [Assign(r, "train") for r in (0, 1, 2, 3)]
    first = Scripted([*lent, Assign(0, "generate")])
    made = between(first, Scripted(), AT_ONE)
    made.handle(Begun(replicas=dict.fromkeys(range(5), 0)))
    made.handle(ReplicaDown(1))
    made.handle(ReplicaUp(2, 0))
    assert made.handle(Trained(1)) == [Assign(3, "generate")]
    assert made.handle(Trained(2)) == []


def test_members_that_only_raced_are_dropped() -> None:
    first = Scripted(
        [Launch(0, 2), Launch(1, 3), Launch(2, 2)], [], [], [Emit((name(0), name(0, 1)))]
    )
    second = Scripted()
    made = between(first, second, AT_ONE)
    for event in (
        Begun(),
        Finished(name(0)),
        Finished(name(0, 1)),
        Finished(name(1, 2)),
        Trained(1),
    ):
        actions = made.handle(event)
    assert actions[-1] == Drop(name(1, 1), "2 of its group are enough")
    begun = second.events[0]
    assert isinstance(begun, Begun)
    assert [known.trajectory_id for known in begun.parked] == [name(1), name(2), name(2, 1)]
    assert begun.finished == [Known(name(1, 2), 0)]


def test_late_events_reach_only_the_schedule_that_is_used() -> None:
    first, second = Scripted([Launch(0, 1)]), Scripted()
    made = between(first, second, AT_ONE)
    made.handle(Begun())
    made.handle(Trained(1))
    late: list[Event] = [Finished(name(0)), Finished(name(0)), Failed(name(5), "gone")]
    for event in late:
        made.handle(event)
    assert second.events[1:] == late
    assert len(first.events) == 1


# ---- which schedule ------------------------------------------------------------------------------


def active_after(made: Switching, *versions: int) -> list[str]:
    used = []
    for version in versions:
        made.handle(Trained(version))
        used.append(made.active)
    return used


def test_the_first_rule_that_holds_wins_and_the_default_holds_otherwise() -> None:
    makers: dict[str, Callable[[], Schedule]] = dict.fromkeys("abc", Scripted)
    rules = [WeightRelease("b", at=(2, 3)), WeightRelease("c", at=(3, 4))]
    made = Switching(makers, "a", rules, min_updates=1)
    made.handle(Begun())
    assert active_after(made, 1, 2, 3, 4, 5) == ["a", "b", "b", "c", "a"]


def test_a_schedule_is_used_for_a_few_updates_at_least() -> None:
    made = between(Scripted(), Scripted(), WeightRelease("second", every=2), min_updates=3)
    made.handle(Begun())
    assert active_after(made, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10) == [
        *["first"] + ["second"] * 3 + ["first"] * 3 + ["second"] * 3
    ]


def test_a_rule_that_cannot_tell_changes_nothing() -> None:
    made = between(
        Scripted(), Scripted(), HourWindow("second", 8, 18), WeightRelease("second", at=(2,))
    )
    made.handle(Begun())
    assert active_after(made, 1, 2) == ["first", "first"]
    made.handle(Tick(1.0, 12.0))
    assert active_after(made, 3) == ["second"]
    made.handle(Tick(1.0, 18.0))
    assert active_after(made, 4) == ["first"]


def test_pressure_is_counted_in_batches_of_complete_groups() -> None:
    launch: list[Action] = [Launch(group, 2) for group in range(8)]
    first = Scripted(launch, [Emit((name(0), name(0, 1), name(1), name(1, 1)))])
    made = between(first, Scripted(), QueuePressure("second", 1.0))
    made.handle(Begun())
    made.handle(Tick(0.0))  # the first batch
    for group in (2, 3):
        made.handle(Finished(name(group)))
        made.handle(Finished(name(group, 1)))
    made.handle(Finished(name(4)))
    assert active_after(made, 1) == ["first"]
    made.handle(Finished(name(4, 1)))
    assert active_after(made, 2) == ["second"]


def test_a_long_tail_is_measured_from_what_finishes() -> None:
    first = Scripted([Launch(group, 1) for group in range(40)])
    made = between(first, Scripted(), LongTail("second", 0.15), history=20)
    made.handle(Begun())
    assert active_after(made, 0) == ["first"]
    for group in range(20):
        made.handle(Finished(name(group), 1.0))
        made.handle(Finished(name(group), 9.0))  # told twice
    assert active_after(made, 1) == ["first"]
    for group in range(20, 40):
        made.handle(Finished(name(group), 1.0 if group % 2 else 9.0))
    assert active_after(made, 2) == ["second"]


@pytest.mark.parametrize(
    ("rule", "at", "holds"),
    [
        (HourWindow("s", 8, 18), Boundary(0, 8.0), True),
        (HourWindow("s", 8, 18), Boundary(0, 18.0), False),
        (HourWindow("s", 18, 24), Boundary(0, 23.9), True),
        (HourWindow("s", 18, 24), Boundary(0, 24.0), False),
        (HourWindow("s", 22, 6), Boundary(0, 24.0), True),
        (HourWindow("s", 22, 6), Boundary(0, 12.0), False),
        (HourWindow("s", 22, 6), Boundary(0), None),
        (QueuePressure("s", 1.5), Boundary(0, pressure=1.5), False),
        (QueuePressure("s", 1.5), Boundary(0, pressure=1.6), True),
        (QueuePressure("s", 1.5), Boundary(0), None),
        (LongTail("s", 0.1), Boundary(0, tail_rate=0.1), False),
        (LongTail("s", 0.1), Boundary(0, tail_rate=0.11), True),
        (WeightRelease("s", every=10), Boundary(0), False),
        (WeightRelease("s", every=10, updates=3), Boundary(12), True),
        (WeightRelease("s", every=10, updates=3), Boundary(13), False),
        (WeightRelease("s", at=(4, 9), updates=2), Boundary(10), True),
        (WeightRelease("s", at=(4, 9), updates=2), Boundary(3), False),
    ],
)
def test_rules(rule: Rule, at: Boundary, holds: bool | None) -> None:
    assert rule.holds(at) is holds


def test_rules_can_be_read_from_a_configuration() -> None:
    rules: list[HourWindow | QueuePressure | LongTail | WeightRelease] = [
        HourWindow("s", 22, 6),
        QueuePressure("s", 2),
        LongTail("s", 0.3),
        WeightRelease("s", at=(4, 9), updates=2),
        WeightRelease("s", every=5),
    ]
    kinds = pydantic.TypeAdapter(list[HourWindow | QueuePressure | LongTail | WeightRelease])
    assert kinds.validate_json(kinds.dump_json(rules)) == rules


# ---- restarts ------------------------------------------------------------------------------------


def test_a_restart_goes_on_with_the_schedule_that_was_used() -> None:
    made = between(Scripted(), Scripted(), WeightRelease("second", at=(1,), updates=5))
    made.handle(Begun())
    made.handle(Trained(1))
    first, second = Scripted(), Scripted()
    again = between(first, second, HourWindow("first", 8, 18))
    again.load_state_dict(made.state_dict())
    begun = Begun([Known(name(0), 1)], [], 1, 2, {0: 2})
    again.handle(begun)  # nobody knows yet how late it is
    assert again.active == "second"
    assert (first.events, second.events) == ([], [begun])


def test_a_switch_that_a_kill_came_before_is_made_at_the_restart() -> None:
    first, second = Scripted(), Scripted()
    made = between(first, second, AT_ONE)
    made.load_state_dict(between(Scripted(), Scripted(), AT_ONE).state_dict())
    made.handle(Begun([Known(name(0), 1)], [], 1, 1, {0: 1}))
    assert made.active == "second"
    assert first.events == []
    assert second.events == [Begun([Known(name(0), 1)], [], 1, 1, {0: 1})]


def test_what_a_schedule_has_learnt_is_there_when_it_is_used_again() -> None:
    first, second = Scripted(), Scripted()
    made = between(first, second, WeightRelease("second", every=2))
    made.handle(Begun())
    first.learnt = 5
    made.handle(Trained(2))
    first.learnt = 0
    saved = made.state_dict()
    made.handle(Trained(3))
    assert first.learnt == 5
    first.learnt = 0
    again = between(first, second, WeightRelease("second", every=2))
    again.load_state_dict(saved)
    again.handle(Trained(3))
    assert first.learnt == 5


def test_measurements_and_the_last_switch_survive_a_restart() -> None:
    first = Scripted([Launch(0, 1)], [Emit((name(0),))])
    made = between(first, Scripted(), WeightRelease("second", every=2), min_updates=9)
    for event in (Begun(), Finished(name(0), 3.0), Trained(2)):
        made.handle(event)
    again = between(Scripted(), Scripted(), min_updates=9)
    again.load_state_dict(made.state_dict())
    assert again.state_dict() == made.state_dict()
    again.handle(Begun(version=2, replicas={0: 2}))
    assert active_after(again, 10, 11) == ["second", "first"]


# ---- misuse --------------------------------------------------------------------------------------


def test_a_schedule_that_is_not_given_any_more_is_named() -> None:
    made = Switching({"sync": Scripted}, "sync")
    with pytest.raises(ConfigError, match="used the schedule 'relay', which is not given"):
        made.load_state_dict(made.state_dict() | {"active": "relay"})


def test_wrong_options_of_a_schedule_are_found_at_once() -> None:
    with pytest.raises(ConfigError, match="multiple of"):
        Switching({"a": Scripted, "b": lambda: Sync(3, 2)}, "a")


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: Switching({"sync": Scripted}, "snyc"), "no schedule 'snyc' .* 'sync'"),
        (
            lambda: Switching({"sync": Scripted}, "sync", [LongTail("relay", 0.1)]),
            "no schedule 'relay'",
        ),
        (lambda: Switching({"sync": Scripted}, "sync", min_updates=0), "min_updates=0"),
        (lambda: Switching({"sync": Scripted}, "sync", history=1), "window=1"),
        (lambda: HourWindow("s", 25, 3), "start=25 .* must be hours"),
        (lambda: HourWindow("s", 3, -1), "end=-1 must be hours"),
        (lambda: HourWindow("s", 0, 24), "the same hour"),
        (lambda: QueuePressure("s", -1), "batches=-1"),
        (lambda: LongTail("s", 1.5), "rate=1.5"),
        (lambda: WeightRelease("s"), "every=0 and at="),
        (lambda: WeightRelease("s", every=3, at=(1,)), "every=3 and at="),
        (lambda: WeightRelease("s", every=-3), "every=-3 and at="),
        (lambda: WeightRelease("s", every=3, updates=3), "updates=3"),
        (lambda: WeightRelease("s", at=(3,), updates=0), "updates=0"),
    ],
)
def test_misuse_is_explained(make: Callable[[], object], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        make()
