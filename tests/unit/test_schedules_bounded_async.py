from __future__ import annotations

from typing import Any

import pytest

from agentic_gym.errors import ConfigError
from agentic_gym.trainers.schedules import base
from agentic_gym.trainers.schedules.base import (
    Action,
    Begun,
    Drop,
    Emit,
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

KEEP = Publish(mode="keep")


def name(group: int, member: int = 0) -> str:
    return base.trajectory_id(group, member)


def launches(first: int, last: int, size: int = 1) -> list[Action]:
    return [Launch(group, size) for group in range(first, last + 1)]


def schedule(batch: int = 1, group: int = 1, eta: int = 1, **options: Any) -> BoundedAsync:
    return BoundedAsync(batch, group, max_staleness=eta, **{"max_concurrent": 100} | options)


def started(*args: int, **options: Any) -> BoundedAsync:
    made = schedule(*args, **options)
    made.handle(Begun())
    return made


def updated(made: BoundedAsync, version: int) -> list[Action]:
    """The trainer is done, and the engine has its weights."""
    actions = made.handle(Trained(version))
    return actions + made.handle(Published(version))


# ---- admission -----------------------------------------------------------------------------------


def test_as_much_is_launched_as_can_be_trained_in_time() -> None:
    assert schedule(4, 2, 2).handle(Begun()) == launches(0, 5, size=2)


def test_no_more_runs_than_the_engine_should_hold() -> None:
    made = schedule(4, 2, 2, max_concurrent=5)
    assert made.handle(Begun()) == launches(0, 1, size=2)
    assert made.handle(Finished(name(0))) == launches(2, 2, size=2)


def test_the_batch_with_the_trainer_counts_until_its_update() -> None:
    made = started(2, 1, 1)
    made.handle(Finished(name(0)))
    assert made.handle(Finished(name(1))) == [Emit((name(0), name(1)))]
    assert made.handle(Trained(1)) == [KEEP]  # version 0 is served: too old for one batch more
    assert made.handle(Published(1)) == launches(4, 5)


def test_a_dropped_group_leaves_room_for_another() -> None:
    made = started(2, 2, 0, max_retries=0)
    actions = made.handle(Failed(name(0, 1), "no disk"))
    reason = "g000000.01 broke 1 times, last: no disk"
    assert actions == [Drop(name(0, 0), reason), Drop(name(0, 1), reason), Launch(1, 2)]


def test_nothing_is_launched_before_all_replicas_serve_fresh_enough_weights() -> None:
    made = schedule(1, 1, 0)
    made.handle(Begun(replicas={0: 0, 1: 0}))
    made.handle(Finished(name(0)))
    assert made.handle(Trained(1)) == [KEEP]
    assert made.handle(Published(1, 0)) == []
    assert made.handle(Published(1, 1)) == launches(1, 1)


def test_a_replica_that_dies_is_not_waited_for() -> None:
    made = schedule(1, 1, 0)
    made.handle(Begun(replicas={0: 0, 1: 0}))
    made.handle(Finished(name(0)))
    made.handle(Trained(1))
    made.handle(Published(1, 0))
    assert made.handle(ReplicaDown(1)) == launches(1, 1)
    assert made.handle(Published(0, 1)) == []  # said before it died
    made.handle(Finished(name(1)))
    assert updated(made, 2) == [KEEP, Launch(2, 1)]


def test_the_trainer_may_make_several_updates_of_a_batch() -> None:
    made = started(1, 1, 1)
    made.handle(Finished(name(0)))
    assert updated(made, 2) == [KEEP, Launch(2, 1)]
    assert made.handle(Finished(name(2))) == []  # g1 is overdue
    assert made.handle(Finished(name(1))) == [Emit((name(1),))]


def test_old_weights_are_used_as_far_as_the_bound_allows() -> None:
    made = schedule(1, 1, 4)
    known = [Known(name(0), 5), Known(name(1), 6)]
    # Of version 5, g0 and three more can be trained by update 9, one at a time; g1 is due by 10.
    assert made.handle(Begun(known, [], 2, 6, {0: 6, 1: 5})) == [
        Publish((1,)),
        Resume(name(0)),
        *launches(2, 4),
    ]
    # If g1 has sampled nothing yet, the weights of replica 1 would make it due sooner.
    assert made.handle(Published(6, 1)) == [Resume(name(1))]


def test_a_replica_that_comes_with_old_weights_gets_new_ones_first() -> None:
    made = schedule(1, 1, 1)
    made.handle(Begun(version=5, replicas={0: 5}))
    assert made.handle(ReplicaUp(1, 3)) == [Publish((1,))]
    assert made.handle(Finished(name(0))) == [Emit((name(0),))]
    assert made.handle(Trained(6)) == [KEEP]
    assert made.handle(Published(6, 0)) == []
    assert made.handle(Published(6, 1)) == launches(2, 2)
    assert made.handle(ReplicaUp(2, 6)) == []


def test_nothing_is_launched_in_the_place_of_what_waits() -> None:
    made = schedule(1, 1, 4, max_concurrent=1)
    assert made.handle(Begun([Known(name(0), 6)], [], 1, 6, {0: 6, 1: 5})) == [Publish((1,))]
    assert made.handle(Published(6, 1)) == [Resume(name(0))]


def test_without_a_replica_nothing_starts() -> None:
    made = schedule(1, 1, 3)
    assert made.handle(Begun([Known(name(0))], [], 1, 0, {})) == []
    assert made.handle(Failed(name(0), "no disk")) == [Retry(name(0)), Park(name(0))]
    assert made.handle(ReplicaUp(0, 0)) == [Resume(name(0)), *launches(1, 3)]


# ---- batches -------------------------------------------------------------------------------------


def test_whole_groups_are_emitted_oldest_weights_first_then_in_launch_order() -> None:
    made = schedule(4, 2, 3)
    finished = [Known(name(g, m), v) for g, v in [(0, 2), (1, 1), (2, 2)] for m in (1, 0)]
    actions = made.handle(Begun([], finished, 3, 2, {0: 2}))
    assert actions[0] == Emit((name(1, 0), name(1, 1), name(0, 0), name(0, 1)))


def test_a_group_with_one_old_member_is_old() -> None:
    made = schedule(2, 2, 3)
    finished = [Known(name(0, 0), 2), Known(name(0, 1), 2), Known(name(1, 0), 2), Known(name(1, 1))]
    actions = made.handle(Begun([], finished, 2, 2, {0: 2}))
    assert actions[0] == Emit((name(1, 0), name(1, 1)))


def test_a_batch_waits_for_a_group_that_is_due() -> None:
    made = started(1, 1, 1)  # g0, g1
    made.handle(Finished(name(1)))
    assert updated(made, 1) == [KEEP, Launch(2, 1)]
    assert made.handle(Finished(name(2))) == []  # g0 has to be trained at version 1
    assert made.handle(Finished(name(0))) == [Emit((name(0),))]


def test_a_batch_waits_where_the_next_ones_could_not_hold_all_that_is_due() -> None:
    made = started(1, 1, 2)  # g0, g1, g2
    made.handle(Finished(name(0)))
    assert updated(made, 1) == [KEEP, Launch(3, 1)]
    # g1 and g2 are due by version 2. If g3 were trained now, one of them would come too late.
    assert made.handle(Finished(name(3))) == []
    assert made.handle(Finished(name(2))) == [Emit((name(2),))]
    # g1 has the batch of version 2 now, whatever else is complete.
    updated(made, 2)
    assert made.handle(Finished(name(4))) == []
    assert made.handle(Finished(name(1))) == [Emit((name(1),))]


def test_a_batch_does_not_wait_for_what_has_time() -> None:
    made = started(1, 1, 2)
    assert made.handle(Finished(name(2))) == [Emit((name(2),))]
    updated(made, 1)
    assert made.handle(Finished(name(1))) == [Emit((name(1),))]  # g0 can still be trained at 2


def test_nothing_is_emitted_while_the_trainer_works_and_at_once_when_it_is_free() -> None:
    made = started(1, 1, 1)
    made.handle(Finished(name(0)))
    assert made.handle(Finished(name(1))) == []
    assert made.handle(Trained(1)) == [KEEP, Emit((name(1),))]


def test_without_staleness_a_batch_is_one_version() -> None:
    made = started(2, 1, 0)
    made.handle(Finished(name(1)))
    assert made.handle(Finished(name(0))) == [Emit((name(0), name(1)))]
    assert updated(made, 1) == [KEEP, *launches(2, 3)]


@pytest.mark.parametrize(
    ("on_publish", "mode"), [("interrupt", "keep"), ("keep_kv", "keep_kv"), ("wait", "wait")]
)
def test_running_requests_are_treated_as_asked(on_publish: str, mode: Any) -> None:
    made = started(1, 1, 1, on_publish=on_publish)
    made.handle(Finished(name(0)))
    assert made.handle(Trained(1)) == [Publish(mode=mode)]


# ---- failures ------------------------------------------------------------------------------------


def test_a_trajectory_that_is_sampled_anew_has_a_new_deadline() -> None:
    made = started(1, 1, 1)
    made.handle(Finished(name(1)))
    updated(made, 1)  # g0 is due now, g2 one update later
    assert made.handle(Finished(name(2))) == []
    assert made.handle(Failed(name(0), "no disk")) == [Retry(name(0)), Emit((name(2),))]


def test_a_failure_that_is_told_twice_does_no_harm() -> None:
    made = started(1, 1, 0)
    failed = Failed(name(0), "no disk")
    assert made.handle(failed) == [Retry(name(0))]
    assert made.handle(failed) == [Retry(name(0))]
    assert made.handle(Finished(name(0))) == [Emit((name(0),))]
    assert made.handle(failed) == []
    assert made.handle(Finished(name(0))) == []


def test_a_retry_waits_where_older_weights_would_bring_its_deadline_closer() -> None:
    made = schedule(1, 1, 0)
    made.handle(Begun(version=5, replicas={0: 5}))
    made.handle(ReplicaUp(1, 3))
    assert made.handle(Failed(name(0), "no disk")) == [Retry(name(0)), Park(name(0))]
    assert made.handle(Published(5, 1)) == [Resume(name(0))]


def test_a_late_result_ends_the_wait_of_a_retry() -> None:
    made = schedule(1, 1, 0)
    made.handle(Begun(version=5, replicas={0: 5}))
    made.handle(ReplicaUp(1, 3))
    made.handle(Failed(name(0), "no disk"))
    assert made.handle(Finished(name(0))) == [Emit((name(0),))]
    assert made.handle(Published(5, 1)) == []


def test_nothing_follows_when_the_run_halts() -> None:
    made = started(1, 1, 0, max_retries=0, max_lost_groups=0)
    actions = made.handle(Failed(name(0), "no disk"))
    assert isinstance(actions[-1], Halt)


# ---- restarts, and what another schedule left ----------------------------------------------------


def test_a_restart_carries_on_what_ran_and_counts_what_is_finished() -> None:
    made = schedule(2, 1, 1)
    actions = made.handle(Begun([Known(name(4), 1)], [Known(name(3), 1)], 6, 2, {0: 2}))
    assert actions == [Resume(name(4)), *launches(6, 7)]


def test_retries_survive_a_restart() -> None:
    made = started(1, 1, 0, max_retries=1)
    made.handle(Failed(name(0), "no disk"))
    again = schedule(1, 1, 0, max_retries=1)
    again.load_state_dict(made.state_dict())
    again.handle(Begun([Known(name(0))], [], 1))
    assert isinstance(again.handle(Failed(name(0), "no disk"))[0], Drop)


def test_what_is_carried_on_keeps_to_the_engine_too_and_the_oldest_go_first() -> None:
    made = schedule(1, 1, 3, max_concurrent=1)
    parked = [Known(name(0), 2), Known(name(1), 1)]
    assert made.handle(Begun(parked, [], 2, 2, {0: 2})) == [Resume(name(1))]
    assert made.handle(Finished(name(1))) == [Emit((name(1),)), Resume(name(0))]


def test_more_than_the_bound_allows_is_trained_first_and_nothing_launched_beside_it() -> None:
    made = schedule(2, 1, 1)
    parked = [Known(name(group), 0) for group in range(5)]
    known = [Known(name(5), 8)]
    actions = made.handle(Begun(parked, known, 6, 8, {0: 8}))
    assert actions == [Resume(name(group)) for group in range(5)]
    made.handle(Finished(name(3)))
    assert made.handle(Finished(name(1))) == [Emit((name(1), name(3)))]
    for group in (0, 2):
        made.handle(Finished(name(group)))
    assert updated(made, 9) == [KEEP, Emit((name(0), name(2)))]
    # g4 is overdue and g5 due by update 9: both go now, and there is room for what comes after.
    assert updated(made, 10) == [KEEP, *launches(6, 7)]
    assert made.handle(Finished(name(6))) == []
    assert made.handle(Finished(name(4))) == [Emit((name(4), name(5)))]


def test_late_events_of_what_is_gone_change_nothing() -> None:
    made = started(1, 1, 0)
    for event in (Finished(name(7)), Failed(name(7), "gone"), Published(0, 3), ReplicaDown(3)):
        assert made.handle(event) == []


# ---- misuse --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"eta": -1}, "max_staleness=-1 must not be negative"),
        ({"batch": 4, "group": 4, "max_concurrent": 3}, "no room for a group of 4"),
        ({"on_publish": "abort"}, "on_publish='abort' is none of 'interrupt', 'keep_kv', 'wait'"),
        ({"batch": 3, "group": 2}, "multiple of"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        schedule(**options)
