"""What the streaming schedule does, action by action."""

from __future__ import annotations

from typing import Any

import pytest

from agentic_gym.errors import ConfigError
from agentic_gym.trainers.schedules import base
from agentic_gym.trainers.schedules.base import (
    Assign,
    Begun,
    Emit,
    Failed,
    Finished,
    Known,
    Launch,
    Migrate,
    Publish,
    Published,
    ReplicaDown,
    ReplicaLoad,
    ReplicaUp,
    Resume,
    Retry,
    Tick,
    Trained,
)
from agentic_gym.trainers.schedules.fleet import Fleet, share_out
from agentic_gym.trainers.schedules.groups import GroupBook
from agentic_gym.trainers.schedules.streaming import Streaming


def name(group: int, member: int = 0) -> str:
    return base.trajectory_id(group, member)


def begun(schedule: Streaming, *versions: int, version: int = 0, **known: Any) -> Streaming:
    schedule.handle(Begun(version=version, replicas=dict(enumerate(versions)), **known))
    return schedule


def two_versions() -> Streaming:
    """Replica 0 serves version 1 and runs group 4; replica 1 serves version 0 and runs 2 and 3."""
    schedule = begun(Streaming(2, window=1, max_concurrent=3), 0, 0)
    for event in (Finished(name(1)), Finished(name(0)), Trained(1), Published(1, 0)):
        schedule.handle(event)
    return schedule


# ---- versions --------------------------------------------------------------------------------------


def test_more_than_a_batch_is_launched_each_group_whole_where_there_is_least_to_do() -> None:
    schedule = Streaming(4, 2, window=2, max_concurrent=7)
    event = Begun(replicas={0: 0, 1: 0})
    assert schedule.handle(event) == [Launch(0, 2, 0), Launch(1, 2, 1), Launch(2, 2, 0)]


def test_an_update_frees_a_replica_for_the_newest_weights_and_the_rest_goes_on() -> None:
    schedule = Streaming(2, window=1, max_concurrent=3)
    launches = [Launch(0, 1, 0), Launch(1, 1, 1), Launch(2, 1, 0)]
    assert schedule.handle(Begun(replicas={0: 0, 1: 0})) == launches
    assert schedule.handle(Finished(name(1))) == [Launch(3, 1, 1)]
    assert schedule.handle(Finished(name(0))) == [Emit((name(0), name(1)))]
    # New prompts wait for the weights that are being loaded.
    assert schedule.handle(Trained(1)) == [Migrate(name(2), 1), Publish((0,))]
    assert schedule.handle(Published(1, 0)) == [Launch(4, 1, 0)]
    assert schedule.replica_versions == {0: 1, 1: 0}


def test_new_prompts_wait_for_the_weights_that_are_being_loaded() -> None:
    schedule = begun(Streaming(2, window=2, max_concurrent=3), 0, 0)
    schedule.handle(Finished(name(0)))
    assert schedule.handle(Finished(name(1))) == [Emit((name(0), name(1))), Launch(4, 1, 1)]
    assert schedule.handle(Trained(1)) == [Migrate(name(4), 0), Publish((1,))]
    assert schedule.handle(Finished(name(2))) == []
    assert schedule.handle(Tick(1.0)) == []
    assert schedule.handle(Published(1, 1)) == [Launch(5, 1, 1)]


def test_the_newest_version_gets_replicas_for_what_it_is_about_to_launch() -> None:
    schedule = begun(Streaming(8, window=1, max_concurrent=16), 0, 0, 0, 0)
    for number in range(8):
        schedule.handle(Finished(name(number)))
    assert schedule.handle(Trained(1))[-1] == Publish((0, 1))
    assert schedule.handle(Tick(1.0)) == []  # those that load count as its own
    assert len(schedule.handle(Published(1, 0))) == 8


def test_the_window_does_not_slide_before_the_oldest_version_is_collected() -> None:
    schedule = two_versions()
    assert schedule.handle(Finished(name(4))) == [Launch(5, 1, 0)]
    assert schedule.handle(Finished(name(5))) == []  # a batch, but 2 and 3 would then be too old
    assert schedule.handle(Finished(name(3))) == []
    assert schedule.handle(Finished(name(2))) == [Emit((name(2), name(3))), Publish((1,))]


def test_the_oldest_version_is_trained_first_then_in_launch_order() -> None:
    known = [Known(name(n), version) for n, version in enumerate([3, 2, 3, 2, 3])]
    schedule = Streaming(3, window=2, max_concurrent=4)
    actions = schedule.handle(Begun([], known, 5, 3, {0: 3}))
    assert actions[0] == Emit((name(1), name(3), name(0)))


def test_new_prompts_go_to_the_newest_version_that_is_served() -> None:
    schedule = begun(Streaming(1, window=3, max_concurrent=2), 1, 2, version=2)
    assert schedule.replica_versions == {0: 1, 1: 2}  # 0 ran nothing: it loads


def test_replicas_are_shared_out_again_at_a_tick() -> None:
    schedule = begun(Streaming(4, window=9, max_concurrent=12), 0, 0, 0, 0)
    events: list[base.Event] = [*(Finished(name(n)) for n in range(4)), Trained(1), Published(1, 0)]
    events += [Finished(name(n)) for n in (5, 6, 7, 9, 10, 11)]
    for event in events:
        schedule.handle(event)
    assert schedule.replica_versions == {0: 1, 1: 0, 2: 0, 3: 0}
    # Two and two.
    moved = [Migrate(name(13), 2), Migrate(name(4), 3)]
    assert schedule.handle(Tick(1.0)) == [*moved, Publish((1,))]
    # What it has to run until new groups come, it gets from the other.
    assert schedule.handle(Published(1, 1)) == [Migrate(name(n), 1) for n in (21, 20, 19)]


def test_weights_that_are_already_replaced_when_they_arrive_are_not_used() -> None:
    schedule = begun(Streaming(1, window=2, max_concurrent=2), 0, 0)
    schedule.handle(Finished(name(0)))
    assert schedule.handle(Trained(1)) == [Migrate(name(2), 1), Publish((0,))]
    schedule.handle(Finished(name(1)))
    assert schedule.handle(Trained(2)) == []
    assert schedule.handle(Published(1, 0)) == [Publish((0,))]
    assert schedule.handle(Published(2, 0)) == [Launch(3, 1, 0)]


def test_weights_that_arrive_before_their_update_is_announced_are_the_newest() -> None:
    schedule = begun(Streaming(1, window=2, max_concurrent=2), 0, 0)
    schedule.handle(Finished(name(0)))
    schedule.handle(Trained(1))
    schedule.handle(Finished(name(1)))
    assert schedule.handle(Published(2, 0)) == [Launch(3, 1, 0)]
    assert schedule.handle(Tick(1.0)) == []


def test_a_single_replica_runs_dry_before_it_loads_and_waits_for_the_trainer() -> None:
    schedule = Streaming(1, window=1, max_concurrent=2)
    assert schedule.handle(Begun()) == [Launch(0, 1, 0), Launch(1, 1, 0)]
    assert schedule.handle(Finished(name(0))) == [Emit((name(0),))]
    assert schedule.handle(Trained(1)) == []
    assert schedule.handle(Finished(name(1))) == [Emit((name(1),))]
    assert schedule.handle(Tick(1.0)) == []
    assert schedule.handle(Trained(2)) == [Publish((0,))]
    assert schedule.handle(Published(2, 0)) == [Launch(2, 1, 0), Launch(3, 1, 0)]


# ---- loads -----------------------------------------------------------------------------------------


def test_a_full_kv_cache_is_relieved_by_the_emptiest_replica_of_the_same_version() -> None:
    schedule = begun(Streaming(10, window=1, max_concurrent=12), 0, 0, 0)
    loads = {r: ReplicaLoad(tokens, 100) for r, tokens in enumerate([96, 50, 20])}
    assert schedule.handle(Tick(1.0, loads=loads)) == [Migrate(name(9), 2)]
    loads[0] = ReplicaLoad(90, 100)
    assert schedule.handle(Tick(2.0, loads=loads)) == []


def test_the_fullest_is_relieved_first_and_each_by_the_one_that_is_emptiest_then() -> None:
    schedule = begun(Streaming(39, window=1, max_concurrent=40), 0, 0, 0, 0)
    loads = {r: ReplicaLoad(tokens, 100) for r, tokens in enumerate([95, 100, 30, 50])}
    moves = schedule.handle(Tick(1.0, loads=loads))
    assert moves == [
        *(Migrate(name(n), 2) for n in (37, 33, 29)),
        *(Migrate(name(n), 3) for n in (36, 32)),
    ]


def test_a_kv_cache_that_is_full_of_what_ended_is_left_alone() -> None:
    schedule = begun(Streaming(2, window=1, max_concurrent=3), 0, 0, 0, 0)
    loads = {3: ReplicaLoad(100, 100), 0: ReplicaLoad(0, 100)}
    assert schedule.handle(Tick(1.0, loads=loads)) == []


def test_a_full_kv_cache_is_not_relieved_by_another_version() -> None:
    loads = {0: ReplicaLoad(10, 100), 1: ReplicaLoad(99, 100)}
    assert two_versions().handle(Tick(1.0, loads=loads)) == []


def test_a_replica_with_the_newest_weights_and_no_work_gets_half_of_what_another_runs() -> None:
    schedule = begun(Streaming(3, window=1, max_concurrent=5), 0)
    assert schedule.handle(ReplicaUp(1, 0)) == [Migrate(name(4), 1), Migrate(name(3), 1)]


# ---- misfortune ------------------------------------------------------------------------------------


def test_what_a_dead_replica_ran_goes_on_under_the_same_version() -> None:
    schedule = begun(Streaming(2, window=1, max_concurrent=4), 0, 0)
    assert schedule.handle(ReplicaDown(0)) == [Resume(name(0), 1), Resume(name(2), 1)]


def test_what_a_dead_replica_ran_starts_again_when_its_version_died_with_it() -> None:
    schedule = two_versions()
    assert schedule.handle(ReplicaDown(1)) == [Retry(name(3), 0), Retry(name(2), 0)]


def test_nothing_starts_again_under_older_weights() -> None:
    schedule = two_versions()
    # Group 4 would be due sooner than it was when it was launched, so it waits for newer weights.
    assert schedule.handle(ReplicaDown(0)) == []
    assert (
        schedule.handle(Finished(name(2))) == []
    )  # nor is anything launched that keeps replica 1 busy
    assert schedule.handle(Finished(name(3))) == [Emit((name(2), name(3))), Publish((1,))]
    assert schedule.handle(Published(1, 1)) == [Resume(name(4), 1), Launch(5, 1, 1)]


def test_nothing_is_launched_under_old_weights_while_something_waits_for_newer_ones() -> None:
    schedule = Streaming(2, window=3, max_concurrent=3)
    parked = [Known(name(0), 0), Known(name(1), 0), Known(name(2), 1)]
    schedule.handle(Begun(parked, [], 3, 1, {0: 0, 1: 1}))
    assert schedule.handle(ReplicaDown(1)) == []
    assert schedule.handle(Finished(name(0))) == []
    assert schedule.handle(Finished(name(1))) == [Emit((name(0), name(1))), Publish((0,))]


def test_what_is_parked_counts_as_work_of_the_newest_version() -> None:
    schedule = Streaming(10, window=5, max_concurrent=19)
    parked = [Known(name(n), int(n >= 10)) for n in range(19)]
    actions = schedule.handle(Begun(parked, [], 19, 1, {0: 0, 1: 0, 2: 0, 3: 0, 4: 1}))
    assert actions[-1] == Publish((2,))
    actions = schedule.handle(ReplicaDown(4))
    assert actions[-1] == Publish((1,))
    assert sum(isinstance(action, Migrate) for action in actions) == 3


def test_a_late_end_of_what_is_parked_counts_if_it_is_a_result() -> None:
    schedule = two_versions()
    schedule.handle(ReplicaDown(0))
    assert schedule.handle(Failed(name(4), "engine died")) == []
    assert schedule.handle(Finished(name(4))) == []
    assert schedule.handle(Finished(name(4))) == []
    assert schedule.handle(ReplicaUp(0, 1)) == [Launch(5, 1, 0)]


def test_a_broken_trajectory_is_tried_again_where_it_was_then_its_group_is_replaced() -> None:
    schedule = begun(Streaming(2, 2, window=1, max_concurrent=4, max_retries=1), 0, 0)
    failed = Failed(name(1, 0), "sandbox died")
    assert schedule.handle(failed) == [Retry(name(1, 0), 1)]
    reason = f"{name(1, 0)} broke 2 times, last: sandbox died"
    assert schedule.handle(failed) == [
        base.Drop(name(1, 0), reason),
        base.Drop(name(1, 1), reason),
        Launch(2, 2, 1),
    ]


def test_the_run_halts_when_every_group_breaks() -> None:
    schedule = begun(Streaming(1, window=1, max_concurrent=2, max_retries=0, max_lost_groups=0), 0)
    actions = schedule.handle(Failed(name(0), "no disk"))
    assert actions[-1] == base.Halt("1 groups in a row broke; the last: no disk")


def test_nothing_waits_for_a_replica_that_dies_while_it_loads() -> None:
    schedule = begun(Streaming(2, window=2, max_concurrent=3), 0, 0)
    for event in (Finished(name(0)), Finished(name(1)), Trained(1)):
        actions = schedule.handle(event)
    assert actions[-1] == Publish((1,))
    assert schedule.handle(ReplicaDown(1)) == []  # the other runs the rest of version 0
    assert schedule.handle(Finished(name(2))) == [Launch(5, 1, 0)]
    assert schedule.handle(Published(1, 1)) == []
    assert schedule.handle(ReplicaUp(1, 0)) == [Publish((1,))]


def test_after_a_restart_versions_that_are_served_go_on_and_others_start_again() -> None:
    schedule = Streaming(2, window=2, max_concurrent=4)
    parked = [Known(name(n), version) for n, version in ((7, 2), (8, 3), (9, 4))]
    actions = schedule.handle(Begun(parked, [], 10, 4, {0: 3, 1: 4}))
    assert actions == [Retry(name(7), 1), Resume(name(8), 0), Resume(name(9), 1), Launch(10, 1, 1)]


def test_what_was_launched_under_a_wider_window_is_trained_late_rather_than_dropped() -> None:
    schedule = Streaming(1, window=1, max_concurrent=2)
    finished = [Known(name(n), 1) for n in range(3)]
    actions = schedule.handle(Begun([Known(name(3), 1)], finished, 4, 5, {0: 5}))
    assert actions == [Retry(name(3), 0), Emit((name(0),))]
    assert schedule.handle(Trained(6)) == [Emit((name(1),))]


def test_state_keeps_the_retries() -> None:
    schedule = begun(Streaming(1, window=1, max_concurrent=2, max_retries=1), 0)
    schedule.handle(Failed(name(0), "no disk"))
    again = Streaming(1, window=1, max_concurrent=2, max_retries=1)
    again.load_state_dict(schedule.state_dict())
    begun(again, 0, parked=[Known(name(0)), Known(name(1))], next_group=2)
    assert again.handle(Failed(name(0), "no disk"))[0] == base.Drop(
        name(0), f"{name(0)} broke 2 times, last: no disk"
    )


# ---- roles -----------------------------------------------------------------------------------------


def ahead() -> Streaming:
    """Two batches wait while one is trained, and nothing runs: replica 1 is lent."""
    schedule = begun(Streaming(1, window=2, max_concurrent=3, elastic=True), 0, 0)
    assert schedule.handle(Finished(name(0))) == [Emit((name(0),))]
    assert schedule.handle(Finished(name(1))) == []
    assert schedule.handle(Finished(name(2))) == [Assign(1, "train")]
    return schedule


def test_a_replica_without_work_is_lent_and_comes_back_when_no_batch_is_left() -> None:
    schedule = ahead()
    # It takes neither launches nor weights while it is lent.
    assert schedule.handle(Trained(1)) == [Emit((name(1),))]
    assert schedule.handle(Trained(2)) == [
        Emit((name(2),)),
        Assign(1, "generate"),
        Publish((0, 1)),
    ]
    launches = [Launch(3, 1, 1), Launch(4, 1, 1)]
    assert schedule.handle(Published(2, 1)) == launches


def test_lent_replicas_come_back_when_the_last_that_generates_dies() -> None:
    assert ahead().handle(ReplicaDown(0))[0] == Assign(1, "generate")


def test_a_lent_replica_comes_back_for_what_no_other_can_carry_on() -> None:
    schedule = Streaming(1, window=3, max_concurrent=4, elastic=True)
    parked = [Known(name(0), 1), Known(name(4), 3)]
    finished = [Known(name(n), 3) for n in (1, 2, 3)]
    actions = schedule.handle(Begun(parked, finished, 5, 3, {0: 1, 1: 3, 2: 3}))
    assert actions[-1] == Assign(2, "train")
    assert schedule.handle(ReplicaDown(1)) == [Assign(2, "generate"), Resume(name(4), 2)]


def test_lent_replicas_come_back_when_the_trainer_waits_for_the_oldest() -> None:
    schedule = Streaming(1, window=3, max_concurrent=4, elastic=True)
    parked, finished = [Known(name(0), 1)], [Known(name(n), 3) for n in (1, 2, 3)]
    assert schedule.handle(Begun(parked, finished, 4, 3, {0: 1, 1: 3, 2: 3})) == [
        Resume(name(0), 0),
        Emit((name(1),)),
        Assign(2, "train"),
    ]
    assert schedule.handle(Trained(4)) == [Assign(2, "generate"), Publish((1, 2))]


def test_without_elastic_no_replica_is_lent() -> None:
    schedule = begun(Streaming(1, window=2, max_concurrent=3), 0, 0)
    actions = [action for n in range(3) for action in schedule.handle(Finished(name(n)))]
    assert not any(isinstance(action, Assign) for action in actions)


# ---- parts -----------------------------------------------------------------------------------------


def test_a_version_without_work_keeps_no_replica_and_the_newest_takes_what_is_left() -> None:
    assert share_out({1: 0, 2: 5}, {1: 2, 2: 3}, newest=3) == {1: 0, 2: 3, 3: 2}
    assert share_out({2: 5}, {2: 1}, newest=3) == {2: 1, 3: 0}
    assert share_out({2: 1, 3: 0}, {2: 3}, newest=3) == {2: 2, 3: 1}
    assert share_out({2: 99, 3: 1}, {2: 2, 3: 2}, newest=3) == {2: 2, 3: 2}


def test_an_old_version_keeps_what_its_cache_fills_but_for_the_newest_replica() -> None:
    assert share_out({2: 1, 3: 9}, {2: 4}, newest=3, needed={2: 3}) == {2: 3, 3: 1}
    assert share_out({2: 1, 3: 9}, {2: 4}, newest=3, needed={2: 9}) == {2: 3, 3: 1}
    assert share_out({2: 1, 3: 9}, {2: 4, 3: 1}, newest=3, needed={2: 9}) == {2: 4, 3: 1}
    assert share_out({1: 1, 2: 1, 3: 9}, {1: 2, 2: 2}, newest=3, needed={1: 2}) == {
        1: 2,
        2: 1,
        3: 1,
    }
    assert share_out({1: 1, 2: 1}, {1: 1, 2: 1}, newest=3, needed={1: 9}) == {1: 1, 2: 1, 3: 0}


def test_a_replica_serves_when_it_neither_loads_nor_is_lent() -> None:
    fleet = Fleet(GroupBook(), {0: 1, 1: 1, 2: 2})
    fleet.load([0])
    fleet.lend([2])
    assert fleet.serving == {1: [(0, 1)]}
    fleet.loaded(0, 2)
    fleet.loaded(7, 2)
    assert fleet.recall() == [2]
    assert fleet.serving == {2: [(0, 0), (0, 2)], 1: [(0, 1)]}
    assert fleet.versions == {0: 2, 1: 1, 2: 2}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"window": 0}, "window=0 must be at least 1"),
        ({"max_concurrent": 4}, "max_concurrent=4 must be more than batch_size=4"),
        ({"window": 1, "elastic": True}, "elastic=True needs window=2"),
        ({"group_size": 3}, "positive multiple of group_size=3"),
        ({"max_retries": -1}, "must not be negative"),
    ],
)
def test_what_cannot_work_is_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Streaming(4, **{"window": 2, "max_concurrent": 8, **options})
