from __future__ import annotations

from types import SimpleNamespace

import pytest

from agentic_gym.errors import ConfigError
from agentic_gym.trainers.schedules.base import group_id, trajectory_id
from agentic_gym.trainers.selection import (
    GroupResult,
    TaskFacts,
    UniformTasks,
    facts_of,
    group_results,
)
from agentic_gym.trainers.selection.base import in_order
from agentic_gym.types import Outcome, Trajectory


def member(group: int, number: int, outcome: Outcome, task: str = "t") -> Trajectory:
    name, group_name = trajectory_id(group, number), group_id(group)
    return Trajectory(name, task, group_name, 0, "prompt", (), None, outcome, True, False)


def test_what_counts_in_a_group() -> None:
    batch = [
        member(7, 0, Outcome.SOLVED),
        member(3, 0, Outcome.TRUNCATED, "u"),
        member(7, 1, Outcome.INFRA_ERROR),
        member(7, 2, Outcome.SUSPECTED_HACK),
        member(3, 1, Outcome.FAILED, "u"),
        member(9, 0, Outcome.INFRA_ERROR, "v"),
    ]
    assert group_results(batch) == [
        GroupResult(7, "t", 1, 2),
        GroupResult(3, "u", 0, 2),
        GroupResult(9, "v", 0, 0),
    ]
    assert [result.trained for result in group_results(batch, trained=False)] == [False] * 3


def test_impossible_results_and_guesses_are_refused() -> None:
    with pytest.raises(ConfigError, match="3 solved of 2"):
        GroupResult(0, "t", 3, 2)
    with pytest.raises(ConfigError, match=r"difficulty=1.5 of task 't'"):
        TaskFacts("t", difficulty=1.5)


def test_facts_are_read_from_whatever_the_environment_calls_a_task() -> None:
    full = SimpleNamespace(task_id="a", error_class="syntax", repo="csv", difficulty=0.25)
    assert facts_of(full) == TaskFacts("a", "syntax", "csv", 0.25)
    assert facts_of(SimpleNamespace(task_id="b")) == TaskFacts("b", "other", "other", None)


def test_tasks_are_put_in_order_and_must_be_distinct() -> None:
    assert [task.task_id for task in in_order([TaskFacts("b"), TaskFacts("a")])] == ["a", "b"]
    with pytest.raises(ConfigError, match="distinct"):
        in_order([TaskFacts("a"), TaskFacts("a")])


def test_uniform_tasks_learn_nothing_and_say_nothing() -> None:
    told, left_alone = (UniformTasks(["a", "b", "c"], seed=4) for _ in range(2))
    for update in range(5):
        told.observe(update, [GroupResult(update, "a", 4, 4)])
        assert told.next_task() == left_alone.next_task()
    assert told.metrics() == {}
    assert told.summary() == {}


def test_uniform_tasks_refuse_the_state_of_another_selector() -> None:
    with pytest.raises(ConfigError, match="is of band, not of uniform"):
        UniformTasks(["a"]).load_state_dict({"kind": "band", "draws": 3})
