"""Demonstrations come from train tasks, and hold nothing that is kept out of training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from agentic_gym.envs.swe.demonstrations import Demonstrator, WrongEdits, demonstrator
from agentic_gym.envs.swe.pocket import line_repair, load_tasks
from agentic_gym.envs.swe.task import SWETask
from agentic_gym.tools import parse_action


@pytest.fixture(scope="module")
def train() -> list[SWETask]:
    return load_tasks("pocket", "train")


def play(policy: Demonstrator, task: SWETask, seed: int, *, solved_by: str) -> list[list[Any]]:
    """Messages of an episode in which only the line ``solved_by`` makes the tests pass."""
    policy.reset(task, seed)
    info: Mapping[str, Any] = {"tests_passed": 0, "tests_total": 2}
    messages = []
    for _ in range(10):
        calls = parse_action(policy.act("", info)).calls
        messages.append([(call.name, call.arguments) for call in calls])
        if calls[-1].name == "submit":
            return messages
        text = (calls[-1].arguments or {})["text"].partition("|")[2]
        info = {"tests_passed": 2 if text == solved_by else 0, "tests_total": 2}
    raise AssertionError("the demonstrator never submitted")


def test_it_ends_with_the_right_edit_and_submission(train: list[SWETask]) -> None:
    policy = Demonstrator(WrongEdits(train))
    lengths = set()
    for seed, task in enumerate(train[:60]):
        repair = line_repair(task)
        messages = play(policy, task, seed, solved_by=repair.after)
        lengths.add(len(messages))
        assert messages[-1] == [("submit", {})]
        name, arguments = messages[-2][-1]
        assert name == "edit_lines"
        text = f"{repair.line}|{repair.after}"
        assert arguments == {"path": repair.path, "start": repair.line, "text": text}
        for later in messages[1:-1]:
            assert later[0] == ("undo", {})
    assert len(lengths) > 1, "some begin with a wrong edit, some do not"


def test_equal_seeds_give_equal_episodes(train: list[SWETask]) -> None:
    policy = Demonstrator(WrongEdits(train), wrong_rate=0.9)
    right = line_repair(train[0]).after
    episodes = [play(policy, train[0], seed, solved_by=right) for seed in (1, 2, 1)]
    assert episodes[0] == episodes[2]


def test_a_wrong_edit_that_passes_is_submitted(train: list[SWETask]) -> None:
    policy = Demonstrator(WrongEdits(train), wrong_rate=1.0)
    policy.reset(train[0], 0)
    policy.act("", {"tests_passed": 1, "tests_total": 2})
    answer = policy.act("", {"tests_passed": 2, "tests_total": 2})
    assert [call.name for call in parse_action(answer).calls] == ["submit"]


def test_no_heldout_bug_is_ever_written(train: list[SWETask]) -> None:
    """The whole kind of leak: a demonstration that writes the line a held-out task starts from."""
    heldout = {
        (task.repo, line_repair(task).line, line_repair(task).before)
        for split in ("heldout_bugs", "dev")
        for task in load_tasks("pocket", split)
    }
    unseen = {task.repo for task in load_tasks("pocket", "heldout_modules")}
    wrong = WrongEdits(train)
    for task in train:
        assert task.repo not in unseen
        repair = line_repair(task)
        assert (task.repo, repair.line, repair.before) not in heldout
        written = {(task.repo, edit.line, edit.text) for edit in wrong.of(task)}
        assert not written & heldout
        assert (task.repo, repair.line, repair.before) not in written


def test_the_factory_reads_the_tasks_of_its_environment(train: list[SWETask]) -> None:
    class Env:
        tasks = train[:5]

    policy = demonstrator(Env())()
    right = line_repair(train[0]).after
    assert play(policy, train[0], 0, solved_by=right)[-1] == [("submit", {})]
