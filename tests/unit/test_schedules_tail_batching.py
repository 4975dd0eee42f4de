from __future__ import annotations

import json
from typing import Any

import pytest

from agentic_gym.errors import ConfigError
from agentic_gym.trainers.schedules import base
from agentic_gym.trainers.schedules.base import Action, trajectory_id
from agentic_gym.trainers.schedules.redundancy import BinomialQuantile
from agentic_gym.trainers.schedules.tail_batching import TailBatching


def name(group: int, member: int = 0) -> str:
    return trajectory_id(group, member)


def started(schedule: TailBatching) -> TailBatching:
    schedule.handle(base.Begun())
    return schedule


def finish(schedule: TailBatching, *names: str) -> list[Action]:
    """All of them; returns what the last brings about."""
    actions: list[Action] = []
    for one in names:
        assert actions == []
        actions = schedule.handle(base.Finished(one, 1.0))
    return actions


def update(schedule: TailBatching, version: int) -> list[Action]:
    """Trains and publishes; returns how the next round begins."""
    assert isinstance(schedule.handle(base.Trained(version))[0], base.Publish)
    return schedule.handle(base.Published(version))


def pairs(**options: Any) -> TailBatching:
    """Two groups of two make a batch, three are launched; a long round comes once two groups wait."""
    return TailBatching(4, 2, prompt_redundancy=1.5, **options)


def test_a_short_round_ends_without_the_slow_groups() -> None:
    schedule = pairs()
    assert schedule.handle(base.Begun()) == [base.Launch(g, 2) for g in range(3)]
    actions = finish(schedule, name(2, 1), name(1, 0), name(0, 1), name(2, 0), name(0, 0))
    batch = name(0, 0), name(0, 1), name(2, 0), name(2, 1)
    # What has finished stays finished.
    assert actions == [base.Emit(batch), base.Park(name(1, 1))]
    assert (schedule.num_short_rounds, schedule.num_long_rounds, schedule.long_queue) == (1, 0, 1)
    # What is trained is forgotten.
    state = schedule.state_dict()
    assert (state["launched"], state["seconds"]) == ({"1": 0}, {"1": 1.0})
    assert schedule.handle(base.Trained(1)) == [base.Publish(None, "wait")]
    assert schedule.handle(base.Published(1)) == [base.Launch(g, 2) for g in (3, 4, 5)]


def queue_two(schedule: TailBatching) -> list[Action]:
    """Two short rounds, which leave groups 1 and 5; returns how the next begins."""
    started(schedule)
    finish(schedule, name(1, 0), name(0, 0), name(0, 1), name(2, 0), name(2, 1))
    update(schedule, 1)
    finish(schedule, name(3, 0), name(3, 1), name(4, 0), name(4, 1))
    assert schedule.long_queue == 2
    return update(schedule, 2)


def test_a_long_round_resumes_the_oldest_and_waits_for_all_of_it() -> None:
    schedule = pairs()
    resumed = [base.Resume(one) for one in (name(1, 1), name(5, 0), name(5, 1))]
    assert queue_two(schedule) == resumed
    actions = finish(schedule, name(5, 0), name(5, 1), name(1, 1))
    assert actions == [base.Emit((name(1, 0), name(1, 1), name(5, 0), name(5, 1)))]
    assert (schedule.num_short_rounds, schedule.num_long_rounds, schedule.long_queue) == (2, 1, 0)


def test_the_papers_variant_plays_the_tasks_anew() -> None:
    schedule = pairs(carry="restart")
    old = "interrupted; its task is played anew by group {} in a long round"
    assert queue_two(schedule) == [
        base.Launch(6, 2, task_of=1),
        base.Drop(name(1, 0), old.format(6)),
        base.Drop(name(1, 1), old.format(6)),
        base.Launch(7, 2, task_of=5),
        base.Drop(name(5, 0), old.format(7)),
        base.Drop(name(5, 1), old.format(7)),
    ]
    assert schedule.handle(base.Finished(name(5, 0), 1.0)) == []  # too late
    actions = finish(schedule, name(7, 0), name(7, 1), name(6, 1), name(6, 0))
    assert actions == [base.Emit((name(6, 0), name(6, 1), name(7, 0), name(7, 1)))]


def test_the_oldest_group_waits_so_many_rounds_then_the_batch_is_filled_up() -> None:
    schedule = started(pairs(max_wait_rounds=0))
    finish(schedule, name(0, 0), name(0, 1), name(2, 0), name(2, 1))
    assert update(schedule, 1) == [
        base.Resume(name(1, 0)),
        base.Resume(name(1, 1)),
        base.Launch(3, 2),
    ]
    assert schedule.long_queue == 0


def test_the_promised_wait_is_reached() -> None:
    schedule = started(TailBatching(4, prompt_redundancy=1.25, max_wait_rounds=2))
    for version, quick in enumerate([range(4), range(5, 9), range(10, 14)]):
        assert base.Emit(tuple(map(name, quick))) in finish(schedule, *map(name, quick))
        actions = update(schedule, version + 1)
    # Group 4 was left by the first round; three batches later it is its turn.
    assert base.Resume(name(4)) in actions
    assert schedule.max_wait == 3


@pytest.mark.parametrize(
    ("rule", "rounds", "wait"), [(1.5, 3, 4), (1.5, 0, 2), (4.0, 0, 4), ("quantile", 1, 4)]
)
def test_the_promised_wait(rule: float | str, rounds: int, wait: int) -> None:
    # Four times a batch of two: seven in hand, six of them taken by three long rounds.
    schedule = TailBatching(2, prompt_redundancy=rule, max_wait_rounds=rounds)
    assert schedule.max_wait == wait


def test_a_late_result_is_kept_for_the_next_batch() -> None:
    schedule = started(pairs())
    finish(schedule, name(1, 0), name(0, 0), name(0, 1), name(2, 0), name(2, 1))
    assert schedule.handle(base.Finished(name(1, 1), 9.0)) == []
    assert schedule.long_queue == 0
    # One is there: for one more, two are launched.
    assert update(schedule, 1) == [base.Launch(3, 2), base.Launch(4, 2)]
    actions = finish(schedule, name(4, 0), name(4, 1))
    assert actions[0] == base.Emit((name(1, 0), name(1, 1), name(4, 0), name(4, 1)))


def test_a_surplus_of_late_results_is_emitted_without_a_launch() -> None:
    schedule = started(TailBatching(1, prompt_redundancy=2.0))
    finish(schedule, name(1))
    assert schedule.handle(base.Finished(name(0), 9.0)) == []
    assert update(schedule, 1) == [base.Emit((name(0),))]


def test_spare_responses_are_dropped_when_enough_have_finished() -> None:
    schedule = TailBatching(4, 2, prompt_redundancy=1.5, response_redundancy=2.0)
    assert schedule.handle(base.Begun()) == [base.Launch(g, 4) for g in range(3)]
    spare = "2 of its group are enough"
    assert finish(schedule, name(0, 3), name(0, 1)) == [
        base.Drop(name(0, 0), spare),
        base.Drop(name(0, 2), spare),
    ]
    finish(schedule, name(1, 2), name(2, 0))
    actions = schedule.handle(base.Finished(name(2, 1)))
    # Of the group that is left, one has finished and one more is carried on.
    assert actions == [
        base.Drop(name(2, 2), spare),
        base.Drop(name(2, 3), spare),
        base.Emit((name(0, 1), name(0, 3), name(2, 0), name(2, 1))),
        base.Drop(name(1, 1), spare),
        base.Drop(name(1, 3), spare),
        base.Park(name(1, 0)),
    ]


def test_reserved_groups_go_on_beside_the_rounds() -> None:
    schedule = started(TailBatching(2, prompt_redundancy=2.0, reserve=0.5, max_wait_rounds=9))
    actions = finish(schedule, name(0), name(3))
    assert actions == [base.Emit((name(0), name(3))), base.Park(name(2))]
    assert schedule.long_queue == 2
    # Something runs: it takes the new weights up.
    assert schedule.handle(base.Trained(1)) == [base.Publish(None, "keep")]
    assert schedule.handle(base.Finished(name(1), 5.0)) == []
    assert schedule.long_queue == 1
    # It counts towards the batch, and the next oldest takes its place.
    assert schedule.handle(base.Published(1)) == [
        base.Launch(4, 1),
        base.Launch(5, 1),
        base.Resume(name(2)),
    ]
    assert finish(schedule, name(2)) == [
        base.Emit((name(1), name(2))),
        base.Park(name(5)),
    ]
    assert schedule.long_queue == 2


def test_the_oldest_come_first_where_a_reserved_place_is_free() -> None:
    schedule = started(TailBatching(3, prompt_redundancy=5 / 3, reserve=1 / 3))
    assert finish(schedule, name(0), name(1), name(2))[1:] == [base.Park(name(4))]
    assert update(schedule, 1) == [base.Launch(g, 1) for g in range(5, 10)]
    actions = finish(schedule, name(5), name(6), name(3))
    assert actions == [
        base.Resume(name(4)),
        base.Emit((name(3), name(5), name(6))),
        *[base.Park(name(g)) for g in (7, 8, 9)],
    ]


def test_the_papers_variant_resumes_nothing_beside_the_rounds() -> None:
    schedule = TailBatching(
        2, prompt_redundancy=2.0, reserve=0.5, carry="restart", max_wait_rounds=9
    )
    started(schedule)
    assert finish(schedule, name(0), name(3))[1:] == [base.Park(name(2))]
    schedule.handle(base.Finished(name(1), 5.0))
    assert update(schedule, 1) == [base.Launch(4, 1), base.Launch(5, 1)]


def test_a_long_round_does_not_speculate() -> None:
    schedule = TailBatching(4, 2, prompt_redundancy=1.0, response_redundancy=2.0, max_wait_rounds=0)
    known = [base.Known(name(0, member)) for member in range(4)]
    spare = "2 of its group are enough"
    assert schedule.handle(base.Begun(known, [], 1, 1, {0: 1})) == [
        base.Drop(name(0, 2), spare),
        base.Drop(name(0, 3), spare),
        base.Resume(name(0, 0)),
        base.Resume(name(0, 1)),
        base.Launch(1, 2),
    ]


def test_a_lost_group_is_replaced_in_either_kind_of_round() -> None:
    schedule = started(pairs(max_retries=0))
    reason = "g000001.00 broke 1 times, last: no disk"
    dropped = [base.Drop(name(1, 0), reason), base.Drop(name(1, 1), reason)]
    failed = base.Failed(name(1, 0), "no disk")
    assert schedule.handle(failed) == [*dropped, base.Launch(3, 2)]
    assert schedule.handle(failed) == []
    schedule = pairs(max_retries=0)
    queue_two(schedule)
    reason = "g000001.01 broke 1 times, last: no disk"
    dropped = [base.Drop(name(1, 0), reason), base.Drop(name(1, 1), reason)]
    assert schedule.handle(base.Failed(name(1, 1), "no disk")) == [*dropped, base.Launch(6, 2)]
    actions = finish(schedule, name(5, 0), name(5, 1), name(6, 0), name(6, 1))
    assert actions == [base.Emit((name(5, 0), name(5, 1), name(6, 0), name(6, 1)))]


def test_a_long_round_replaces_a_lost_group_from_the_queue() -> None:
    schedule = started(TailBatching(1, prompt_redundancy=3.0, max_retries=0))
    assert base.Park(name(2)) in finish(schedule, name(1))
    assert update(schedule, 1) == [base.Resume(name(0))]
    actions = schedule.handle(base.Failed(name(0), "no disk"))
    assert actions == [
        base.Drop(name(0), "g000000.00 broke 1 times, last: no disk"),
        base.Resume(name(2)),
    ]


def test_what_breaks_as_it_is_interrupted_waits_for_its_turn() -> None:
    schedule = started(pairs())
    finish(schedule, name(0, 0), name(0, 1), name(2, 0), name(2, 1))
    actions = schedule.handle(base.Failed(name(1, 1), "aborted"))
    assert actions == [base.Retry(name(1, 1)), base.Park(name(1, 1))]


def test_the_run_halts_when_every_group_breaks() -> None:
    schedule = started(TailBatching(1, prompt_redundancy=1.0, max_retries=0, max_lost_groups=0))
    actions = schedule.handle(base.Failed(name(0), "no disk"))
    assert actions[-1] == base.Halt("1 groups in a row broke; the last: no disk")


def test_nothing_begins_before_every_replica_has_the_newest_weights() -> None:
    schedule = TailBatching(1, prompt_redundancy=1.0)
    assert schedule.handle(base.Begun(version=3, replicas={0: 3, 1: 2})) == [
        base.Publish((1,), "wait")
    ]
    assert schedule.handle(base.Published(2, 1)) == []
    assert schedule.handle(base.ReplicaUp(2, 2)) == [base.Publish((2,), "wait")]
    assert schedule.handle(base.Published(3, 1)) == []
    assert schedule.handle(base.ReplicaDown(2)) == [base.Launch(0, 1)]


def test_a_replica_that_loads_weights_holds_back_what_is_to_be_launched() -> None:
    schedule = started(TailBatching(2, prompt_redundancy=1.0, max_retries=0))
    update_of = base.Publish((1,), "keep")  # others run
    assert schedule.handle(base.ReplicaUp(1, -1)) == [update_of]
    actions = schedule.handle(base.Failed(name(0), "no disk"))
    assert actions == [base.Drop(name(0), "g000000.00 broke 1 times, last: no disk")]
    assert schedule.handle(base.Published(0, 1)) == [base.Launch(2, 1)]


def test_after_a_restart_too_nothing_runs_under_old_weights() -> None:
    schedule = TailBatching(1, prompt_redundancy=1.0)
    known = [base.Known(name(0), 2)]
    begun = base.Begun(known, [], 1, 2, {0: 1})
    assert schedule.handle(begun) == [base.Publish((0,), "wait")]
    assert schedule.handle(base.Published(2)) == [base.Resume(name(0))]


def test_a_restart_drops_what_a_kill_left_of_the_spare_responses() -> None:
    schedule = TailBatching(2, 2, prompt_redundancy=1.0, response_redundancy=2.0)
    done = [base.Known(name(0, member)) for member in (1, 3)]
    actions = schedule.handle(base.Begun([base.Known(name(0, 2))], done, 1))
    assert actions == [
        base.Drop(name(0, 2), "2 of its group are enough"),
        base.Emit((name(0, 1), name(0, 3))),
    ]


def test_without_a_saved_state_the_ledger_says_what_is_old() -> None:
    schedule = TailBatching(2, prompt_redundancy=1.0)
    known = [base.Known(name(g), version) for g, version in ((0, 1), (1, 1), (2, 3))]
    actions = schedule.handle(base.Begun(known, [], 3, 3, {0: 3}))
    assert actions == [base.Resume(name(0)), base.Resume(name(1))]
    assert schedule.long_queue == 1


def test_a_batch_that_a_restart_finds_complete_leaves_the_rest_for_later() -> None:
    schedule = TailBatching(1, prompt_redundancy=2.0, reserve=1.0)
    begun = base.Begun([base.Known(name(1))], [base.Known(name(0))], 2)
    assert schedule.handle(begun) == [base.Resume(name(1)), base.Emit((name(0),))]
    assert schedule.long_queue == 1


def restarted(schedule: TailBatching, event: base.Begun) -> tuple[TailBatching, list[Action]]:
    """A new one that gets the state saved and the ledger."""
    state = json.loads(json.dumps(schedule.state_dict()))
    again = pairs()
    again.load_state_dict(state)
    assert again.state_dict() == schedule.state_dict()
    return again, again.handle(event)


def test_a_restart_in_a_short_round_keeps_the_queue_apart() -> None:
    schedule = started(pairs())
    finish(schedule, name(0, 0), name(0, 1), name(2, 0), name(2, 1))
    update(schedule, 1)
    finish(schedule, name(4, 1))
    known = [base.Known(name(1, m), 0) for m in range(2)]
    known += [base.Known(name(g, m), 1) for g in (3, 5) for m in range(2)]
    known += [base.Known(name(4, 0), 1)]
    begun = base.Begun(known, [base.Known(name(4, 1), 1)], 6, 1, {0: 1})
    again, actions = restarted(schedule, begun)
    members = name(3, 0), name(3, 1), name(4, 0), name(5, 0), name(5, 1)
    assert actions == [base.Resume(one) for one in members]
    assert again.long_queue == 1


def test_a_restart_in_a_long_round_goes_on_with_it() -> None:
    schedule = pairs()
    queue_two(schedule)
    finish(schedule, name(5, 0), name(5, 1))
    done = [base.Known(one) for one in (name(1, 0), name(5, 1), name(5, 0))]
    again, actions = restarted(schedule, base.Begun([base.Known(name(1, 1))], done, 6, 2, {0: 2}))
    # Group 5 is complete, and still its batch is waited for.
    assert actions == [base.Resume(name(1, 1))]
    assert finish(again, name(1, 1)) == [
        base.Emit((name(1, 0), name(1, 1), name(5, 0), name(5, 1)))
    ]


def test_a_state_from_before_the_last_update_counts_for_nothing_in_its_round() -> None:
    schedule = started(pairs())  # saved in the first round
    # It broke and began anew under version 1; launched it was before.
    known = [base.Known(name(1, m), 1) for m in range(2)]
    again, actions = restarted(schedule, base.Begun(known, [], 3, 1, {0: 1}))
    assert actions == [base.Launch(g, 2) for g in (3, 4, 5)]
    assert again.long_queue == 1


def test_the_measured_rate_decides_how_many_are_launched() -> None:
    for rate in (0.0, 0.3, 1.0):
        state = TailBatching(8).state_dict()
        state["rate"]["rate"] = rate
        schedule = TailBatching(8)
        schedule.load_state_dict(state)
        launched = BinomialQuantile().launches(8, rate)
        assert schedule.handle(base.Begun()) == [base.Launch(g, 1) for g in range(launched)]


def test_a_group_is_long_by_its_slowest_member() -> None:
    schedule = started(TailBatching(18, 2, prompt_redundancy=1.0))
    finish(schedule, *(name(g, m) for g in range(8) for m in range(2)))
    before = schedule.tail_rate
    schedule.handle(base.Finished(name(8, 0), 10.0))
    assert schedule.tail_rate == before
    schedule.handle(base.Finished(name(8, 1), 1.0))
    assert schedule.tail_rate > before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"carry": "drop"}, "resume"),
        ({"response_redundancy": 0.9}, "1 or more"),
        ({"response_redundancy": float("nan")}, "1 or more"),
        ({"reserve": 1.5}, "share of the batch"),
        ({"max_wait_rounds": -1}, "must not be negative"),
        ({"prompt_redundancy": 0.5}, "1 or more"),
        ({"prompt_redundancy": "much"}, "not known"),
        ({"group_size": 3}, "multiple of"),
    ],
)
def test_impossible_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        TailBatching(4, **options)
