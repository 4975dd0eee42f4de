from __future__ import annotations

import json
import math
from typing import Any

import pytest

from agentic_gym.errors import ConfigError
from agentic_gym.trainers.schedules import base
from agentic_gym.trainers.schedules.base import trajectory_id
from agentic_gym.trainers.schedules.relay import Relay


def relay(batch_size: int = 2, group_size: int = 1, **options: Any) -> Relay:
    return Relay(batch_size, group_size, **{"max_concurrent": 4, "roofline_batch": 4, **options})


def started(replicas: int = 2, *args: int, **options: Any) -> Relay:
    schedule = relay(*args, **options)
    schedule.handle(base.Begun(replicas=dict.fromkeys(range(replicas), 0)))
    return schedule


def finish(schedule: Relay, *groups: int) -> list[base.Action]:
    actions: list[base.Action] = []
    for group in groups:
        actions += schedule.handle(base.Finished(trajectory_id(group, 0)))
    return actions


def tick(seconds: float, *tokens: int) -> base.Tick:
    return base.Tick(seconds, loads={r: base.ReplicaLoad(n, 100) for r, n in enumerate(tokens)})


def names(*groups: int) -> tuple[str, ...]:
    return tuple(trajectory_id(group, 0) for group in groups)


# ---- launching and loading ---------------------------------------------------------------------------


def test_every_replica_gets_its_share() -> None:
    schedule = relay(max_concurrent=5, roofline_batch=2)
    assert schedule.handle(base.Begun(replicas={0: 0, 1: 0})) == [
        base.Launch(0, 1, 0),
        base.Launch(1, 1, 1),
        base.Launch(2, 1, 0),
        base.Launch(3, 1, 1),
    ]


def test_a_group_is_launched_whole_where_a_share_is_less() -> None:
    schedule = relay(3, 3)
    assert schedule.handle(base.Begun(replicas={0: 0, 1: 0})) == [base.Launch(0, 3, 0)]


def test_a_replica_refills_until_there_are_newer_weights_and_loads_them_when_empty() -> None:
    schedule = started()
    assert finish(schedule, 0) == [base.Launch(4, 1, 0)]
    assert finish(schedule, 1) == [base.Emit(names(0, 1)), base.Launch(5, 1, 1)]
    assert schedule.handle(base.Trained(1)) == []  # nobody waits, nobody is interrupted
    assert finish(schedule, 2) == []
    assert finish(schedule, 4) == [base.Emit(names(2, 4)), base.Publish((0,))]
    assert schedule.replica_versions == {0: 0, 1: 0}
    assert schedule.handle(base.Published(1, 0)) == [base.Launch(6, 1, 0), base.Launch(7, 1, 0)]
    assert schedule.replica_versions == {0: 1, 1: 0}
    assert schedule.staleness_histogram == {0: 2, 1: 2}


def test_weights_that_are_old_when_they_come_are_not_used() -> None:
    schedule = started(1)
    finish(schedule, 0, 1)
    schedule.handle(base.Trained(1))
    assert finish(schedule, 2, 3, 4, 5) == [base.Emit(names(2, 3)), base.Publish((0,))]
    assert schedule.handle(base.Trained(2)) == [base.Emit(names(4, 5))]  # 0 is loading
    assert schedule.handle(base.Published(1, 0)) == [base.Publish((0,))]


def test_an_idle_replica_loads_as_soon_as_there_is_something() -> None:
    schedule = started(max_staleness=0)
    finish(schedule, 0, 1)
    assert schedule.handle(base.Trained(1)) == [base.Publish((0, 1))]


def test_nothing_is_launched_when_the_buffer_is_full() -> None:
    schedule = started(1, buffer_size=5)
    assert finish(schedule, 0) == [base.Launch(4, 1, 0)]
    assert finish(schedule, 1) == [base.Emit(names(0, 1)), base.Launch(5, 1, 0)]
    assert finish(schedule, 2) == [base.Launch(6, 1, 0)]
    assert finish(schedule, 3) == []
    assert finish(schedule, 4) == []


# ---- batches -----------------------------------------------------------------------------------------


def test_a_batch_is_the_oldest_weights_first_then_launch_order() -> None:
    schedule = started(2)
    finish(schedule, 0, 1)  # launches 4 and 5
    schedule.handle(base.Trained(1))
    finish(schedule, 4, 2)  # emitted; 0 is empty and loads
    schedule.handle(base.Published(1, 0))  # launches 6 and 7 on it
    finish(schedule, 7, 6, 5)
    assert schedule.handle(base.Trained(2))[0] == base.Emit(names(5, 6))


def test_a_batch_waits_for_the_group_without_which_the_bound_would_break() -> None:
    # Of three old groups two would be left for the one update that may still train them.
    schedule = started(1, batch_size=1, max_staleness=2, max_concurrent=3)
    assert finish(schedule, 0) == [base.Emit(names(0))]
    schedule.handle(base.Trained(1))
    assert schedule.handle(base.ReplicaUp(1, 1)) == [base.Launch(3, 1, 1)]
    assert finish(schedule, 3) == []
    assert finish(schedule, 2) == [base.Emit(names(2))]


def test_groups_that_are_late_from_the_start_go_first_and_are_kept() -> None:
    schedule = relay(max_staleness=0)
    known = [base.Known(name, 1) for name in names(0, 1, 2)]
    begun = base.Begun((), known, 3, 4, {0: 4})
    assert schedule.handle(begun) == [base.Emit(names(0, 1))]
    # The third leaves room for one of the two that the next batch takes.
    assert schedule.handle(base.Trained(5)) == [base.Publish((0,))]
    assert schedule.handle(base.Published(5, 0)) == [base.Launch(3, 1, 0)]
    assert finish(schedule, 3) == [base.Emit(names(2, 3))]
    assert schedule.staleness_histogram == {3: 2, 4: 1, 0: 1}


# ---- repacking ---------------------------------------------------------------------------------------


def draining(**options: Any) -> Relay:
    """Version 1 is trained; group 4 runs on replica 0, groups 1 and 3 on replica 1."""
    schedule = started(2, **options)
    schedule.handle(tick(1.0, 80, 90))
    finish(schedule, 0, 2)
    assert schedule.handle(base.Trained(1)) == []
    assert finish(schedule, 5) == []
    return schedule


def test_the_last_trajectories_move_together_and_the_emptied_replica_loads() -> None:
    schedule = draining()
    assert schedule.handle(tick(2.0, 20, 60)) == []
    assert schedule.handle(tick(3.0, 20, 60)) == [
        base.Migrate(trajectory_id(4, 0), 1),
        base.Publish((0,)),
    ]
    assert (schedule.num_repacks, schedule.num_migrations) == (1, 1)
    assert schedule.handle(base.Published(1, 0)) == [base.Launch(6, 1, 0)]


def test_it_is_looked_at_again_after_the_interval() -> None:
    schedule = draining()
    assert schedule.handle(tick(3.0, 50, 60)) == []  # together too much
    assert schedule.handle(tick(5.9, 20, 60)) == []
    assert base.Migrate(trajectory_id(4, 0), 1) in schedule.handle(tick(6.0, 20, 60))


def test_it_is_looked_at_after_an_update() -> None:
    schedule = draining()
    schedule.handle(tick(3.0, 50, 60))
    schedule.handle(tick(4.0, 20, 60))
    assert finish(schedule, 1) == [base.Emit(names(1, 5))]
    assert schedule.handle(base.Trained(2)) == [
        base.Migrate(trajectory_id(4, 0), 1),
        base.Publish((0,)),
    ]


def test_a_straggler_alone_moves_although_its_cache_grows() -> None:
    schedule = draining()
    schedule.handle(tick(2.0, 20, 60))
    assert base.Migrate(trajectory_id(4, 0), 1) in schedule.handle(tick(3.0, 25, 65))


def test_where_something_was_resumed_since_the_last_tick_the_load_is_not_known() -> None:
    schedule = started(3, max_concurrent=6, roofline_batch=8)
    schedule.handle(tick(1.0, 90, 90, 90))
    finish(schedule, 0, 1)
    schedule.handle(tick(2.0, 20, 30, 90))
    schedule.handle(base.ReplicaDown(2))
    assert schedule.handle(base.Trained(1)) == []
    assert base.Publish((0,)) in schedule.handle(tick(3.0, 40, 50))


def test_where_something_was_launched_or_tried_again_it_is_not_known_either() -> None:
    schedule = started(2, roofline_batch=8)
    finish(schedule, 0)
    schedule.handle(tick(1.0, 90, 90))
    schedule.handle(tick(2.0, 20, 30))
    assert finish(schedule, 1) == [base.Emit(names(0, 1)), base.Launch(5, 1, 1)]
    assert schedule.handle(base.Trained(1)) == []
    schedule.handle(tick(2.5, 20, 30))
    failed = base.Failed(trajectory_id(3, 0), "sandbox died")
    assert schedule.handle(failed) == [base.Retry(trajectory_id(3, 0), 1)]
    assert finish(schedule, 2, 5) == [base.Emit(names(2, 5))]
    assert schedule.handle(base.Trained(2)) == []


def test_where_something_was_moved_it_is_not_known_either() -> None:
    schedule = started(3, max_concurrent=6, roofline_batch=8)
    schedule.handle(tick(1.0, 90, 90, 90))
    finish(schedule, 0, 1)
    schedule.handle(base.Trained(1))
    finish(schedule, 2, 6)  # 3 still runs on 0; 4 and 7 on 1; 5 and 8 on 2
    assert schedule.handle(tick(3.0, 20, 30, 60)) == [
        base.Migrate(trajectory_id(3, 0), 2),
        base.Publish((0,)),
    ]
    assert schedule.handle(base.Trained(2)) == []
    assert schedule.num_repacks == 1


def test_replicas_with_the_newest_weights_are_left_alone() -> None:
    schedule = started(2)
    schedule.handle(tick(1.0, 90, 90))
    assert schedule.handle(tick(3.0, 20, 60)) == []


@pytest.mark.parametrize(
    ("options", "tokens"),
    [
        ({}, (41, 60)),  # together too much for the cache
        ({"roofline_batch": 2}, (20, 60)),  # or for the roofline
        ({}, (80, 90)),  # neither has less than it had
        ({"repack_seconds": math.inf}, (20, 60)),
    ],
)
def test_nothing_is_moved_that_does_not_fit(
    options: dict[str, Any], tokens: tuple[int, int]
) -> None:
    schedule = draining(**options)
    assert schedule.handle(tick(3.0, *tokens)) == []
    assert schedule.num_repacks == 0


# ---- faults ------------------------------------------------------------------------------------------


def test_what_a_dead_replica_ran_is_carried_on_where_its_version_is_served() -> None:
    schedule = started(2)
    assert schedule.handle(base.ReplicaDown(0)) == [
        base.Resume(trajectory_id(0, 0), 1),
        base.Resume(trajectory_id(2, 0), 1),
    ]
    assert schedule.replica_versions == {1: 0}


def test_it_waits_until_there_is_room() -> None:
    schedule = started(2, roofline_batch=2)
    assert schedule.handle(base.ReplicaDown(0)) == []
    assert finish(schedule, 1) == [base.Resume(trajectory_id(0, 0), 1)]
    # Its place is kept, also from new launches.
    assert finish(schedule, 3) == [base.Emit(names(1, 3)), base.Resume(trajectory_id(2, 0), 1)]


def test_old_weights_are_kept_while_something_waits_for_them() -> None:
    schedule = draining(roofline_batch=2)
    assert schedule.handle(base.ReplicaDown(1)) == [base.Resume(trajectory_id(1, 0), 0)]
    assert finish(schedule, 4) == [base.Emit(names(4, 5)), base.Resume(trajectory_id(3, 0), 0)]
    assert finish(schedule, 1, 3) == [base.Publish((0,))]


def test_it_starts_again_where_nobody_serves_its_version() -> None:
    schedule = draining()
    assert finish(schedule, 4) == [base.Emit(names(4, 5)), base.Publish((0,))]
    assert schedule.handle(base.ReplicaDown(1)) == []
    assert schedule.handle(base.Published(1, 0)) == [
        base.Retry(trajectory_id(1, 0), 0),
        base.Retry(trajectory_id(3, 0), 0),
        base.Launch(6, 1, 0),
        base.Launch(7, 1, 0),
    ]


def test_it_goes_to_the_fullest_that_has_room_so_that_the_others_are_free_sooner() -> None:
    schedule = started(4, max_concurrent=8, roofline_batch=3)
    finish(schedule, 0, 1)  # launches 8 and 9
    schedule.handle(base.Trained(1))
    finish(schedule, 8, 2)  # 4 runs on 0, 5 and 9 on 1, 6 on 2, 3 and 7 on 3
    assert schedule.handle(base.ReplicaDown(2)) == [base.Resume(trajectory_id(6, 0), 3)]


def test_it_does_not_go_where_newer_weights_are_being_loaded() -> None:
    schedule = started(3, max_concurrent=6, roofline_batch=2)
    finish(schedule, 0, 1)  # launches 6 and 7
    schedule.handle(base.Trained(1))
    assert base.Publish((0,)) in finish(schedule, 6, 3)
    assert schedule.handle(base.ReplicaDown(1)) == []  # 2 is full
    assert finish(schedule, 2) == [base.Resume(trajectory_id(4, 0), 2)]


def test_it_does_not_wait_for_a_replica_that_gives_up_its_version() -> None:
    schedule = draining()
    assert schedule.handle(base.ReplicaUp(2, 1)) == [base.Launch(6, 1, 2)]
    assert base.Publish((0,)) in finish(schedule, 4)
    assert schedule.handle(base.ReplicaDown(1))[:2] == [
        base.Retry(trajectory_id(1, 0), 2),
        base.Retry(trajectory_id(3, 0), 2),
    ]


def test_a_late_result_of_what_waits_is_taken_and_a_late_failure_is_not() -> None:
    schedule = started(2, batch_size=4, roofline_batch=2)
    schedule.handle(base.ReplicaDown(0))
    assert schedule.handle(base.Failed(trajectory_id(2, 0), "connection reset")) == []
    assert finish(schedule, 0) == []
    assert finish(schedule, 1) == [base.Resume(trajectory_id(2, 0), 1)]


def test_a_replica_that_comes_with_old_weights_loads_first() -> None:
    schedule = draining()
    assert schedule.handle(base.ReplicaUp(2, 0)) == [base.Publish((2,))]
    assert schedule.handle(base.Published(1, 2)) == [base.Launch(6, 1, 2)]


def test_a_broken_trajectory_is_tried_again_under_the_newest_weights_that_have_room() -> None:
    schedule = draining()
    failed = base.Failed(trajectory_id(1, 0), "sandbox died")
    assert schedule.handle(failed) == [base.Retry(trajectory_id(1, 0), 1)]
    assert schedule.handle(base.ReplicaUp(2, 1)) == [base.Launch(6, 1, 2)]
    assert schedule.handle(failed) == [base.Retry(trajectory_id(1, 0), 2)]
    assert schedule.handle(failed)[0] == base.Drop(
        trajectory_id(1, 0), "g000001.00 broke 3 times, last: sandbox died"
    )


def test_the_run_halts_when_every_group_breaks() -> None:
    schedule = started(1, max_retries=0, max_lost_groups=0)
    actions = schedule.handle(base.Failed(trajectory_id(0, 0), "no disk"))
    assert actions[-1] == base.Halt("1 groups in a row broke; the last: no disk")


def test_unknown_replicas_change_nothing() -> None:
    schedule = started(1)
    assert schedule.handle(base.Published(3, 7)) == []
    assert schedule.replica_versions == {0: 0}
    assert schedule.handle(base.ReplicaDown(7)) == []


# ---- restart -----------------------------------------------------------------------------------------


def test_a_restart_carries_on_what_is_served_and_starts_the_rest_again() -> None:
    schedule = relay(max_concurrent=3)
    parked = [base.Known(trajectory_id(4, 0), 2), base.Known(trajectory_id(3, 0), 1)]
    begun = base.Begun(parked, [base.Known(trajectory_id(5, 0), 2)], 6, 3, {0: 3, 1: 2})
    assert schedule.handle(begun) == [
        base.Retry(trajectory_id(3, 0), 0),
        base.Resume(trajectory_id(4, 0), 1),
        base.Launch(6, 1, 0),
    ]
    assert finish(schedule, 4) == [base.Emit(names(4, 5)), base.Publish((1,))]


def test_a_restart_spreads_what_the_newest_weights_carry_on_as_far_as_may_run() -> None:
    schedule = relay(max_concurrent=3)
    parked = [base.Known(name, 1) for name in names(0, 1, 2, 3)]
    assert schedule.handle(base.Begun(parked, (), 4, 1, {0: 1, 1: 1})) == [
        base.Resume(trajectory_id(0, 0), 0),
        base.Resume(trajectory_id(1, 0), 1),
        base.Resume(trajectory_id(2, 0), 0),
    ]
    assert finish(schedule, 0) == [base.Resume(trajectory_id(3, 0), 0)]


def test_counts_survive_a_restart() -> None:
    schedule = draining()
    schedule.handle(tick(3.0, 20, 60))
    again = relay()
    again.load_state_dict(json.loads(json.dumps(schedule.state_dict())))
    assert again.state_dict() == schedule.state_dict()
    assert (again.num_repacks, again.num_migrations) == (1, 1)
    assert again.staleness_histogram == {0: 2}


# ---- misuse ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 3, "group_size": 2}, "positive multiple"),
        ({"group_size": 2, "max_concurrent": 1}, "max_concurrent=1 must be at least 2"),
        ({"group_size": 2, "roofline_batch": 1}, "roofline_batch=1 must be at least 2"),
        ({"buffer_size": 1}, "buffer_size=1 must be at least 2"),
        ({"repack_seconds": 0.0}, "repack_seconds=0.0 must be positive"),
        ({"repack_seconds": math.nan}, "repack_seconds=nan must be positive"),
        ({"max_staleness": -1}, "max_staleness=-1 must not be negative"),
        ({"max_retries": -1}, "max_retries=-1"),
    ],
)
def test_impossible_numbers_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        relay(**options)
