from __future__ import annotations

import pytest

from agentic_gym.errors import ConfigError
from agentic_gym.trainers.schedules import base
from agentic_gym.trainers.schedules.sync import Sync


def started(schedule: Sync) -> Sync:
    schedule.handle(base.Begun())
    return schedule


def test_a_batch_is_launched_whole_and_emitted_in_launch_order() -> None:
    schedule = Sync(4, 2)
    assert schedule.handle(base.Begun()) == [base.Launch(0, 2), base.Launch(1, 2)]
    names = ["g000000.00", "g000000.01", "g000001.00", "g000001.01"]
    for name in reversed(names[1:]):
        assert schedule.handle(base.Finished(name)) == []
    assert schedule.handle(base.Finished(names[0])) == [base.Emit(tuple(names))]


def test_nothing_is_launched_while_the_trainer_works() -> None:
    schedule = started(Sync(1))
    schedule.handle(base.Finished("g000000.00"))
    assert schedule.handle(base.Trained(1)) == [base.Publish()]
    assert schedule.handle(base.Published(1)) == [base.Launch(1, 1)]


def test_a_broken_trajectory_is_tried_again_then_its_group_is_replaced() -> None:
    schedule = started(Sync(4, 2, max_retries=1))
    schedule.handle(base.Finished("g000001.01"))
    failed = base.Failed("g000001.00", "sandbox died")
    assert schedule.handle(failed) == [base.Retry("g000001.00")]
    actions = schedule.handle(failed)
    reason = "g000001.00 broke 2 times, last: sandbox died"
    assert actions == [
        base.Drop("g000001.00", reason),
        base.Drop("g000001.01", reason),
        base.Launch(2, 2),
    ]
    # A sibling that was still running then comes too late.
    assert schedule.handle(base.Finished("g000001.01")) == []


def test_the_run_halts_when_every_group_breaks() -> None:
    schedule = started(Sync(1, max_retries=0, max_lost_groups=2))
    for group in range(2):
        schedule.handle(base.Failed(base.trajectory_id(group, 0), "no disk"))
    actions = schedule.handle(base.Failed(base.trajectory_id(2, 0), "no disk"))
    assert actions[-1] == base.Halt("3 groups in a row broke; the last: no disk")


def test_success_between_failures_keeps_the_run_going() -> None:
    schedule = started(Sync(2, max_retries=0, max_lost_groups=1))
    for group in (0, 2):
        actions = schedule.handle(base.Failed(base.trajectory_id(group, 0), "no disk"))
        assert not any(isinstance(action, base.Halt) for action in actions)
        schedule.handle(base.Finished(base.trajectory_id(1, 0)))


def test_a_group_that_a_restart_finds_incomplete_is_dropped() -> None:
    schedule = Sync(2, 2)
    actions = schedule.handle(base.Begun([base.Known("g000003.01")], [], 4))
    assert actions == [
        base.Drop("g000003.01", "its group is not whole after a restart"),
        base.Launch(4, 2),
    ]


def test_a_batch_finished_before_a_restart_is_emitted_at_once() -> None:
    schedule = Sync(2)
    done = ["g000004.00", "g000003.00"]
    known = [base.Known(name) for name in done]
    assert schedule.handle(base.Begun([], known, 5)) == [base.Emit(("g000003.00", "g000004.00"))]


@pytest.mark.parametrize("arguments", [(0, 1), (3, 2), (2, 0)])
def test_impossible_sizes_are_refused(arguments: tuple[int, int]) -> None:
    with pytest.raises(ConfigError, match="multiple of"):
        Sync(*arguments)


def test_foreign_names_are_refused() -> None:
    with pytest.raises(ConfigError, match="names look like"):
        base.parse_id("episode-7")
