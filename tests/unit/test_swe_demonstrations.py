"""Demonstrations come from train tasks, and hold nothing that is kept out of training."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Mapping
from typing import Any

import pytest

from agentic_gym.envs.swe.blocks import blocks
from agentic_gym.envs.swe.demonstrations import Demonstrator, WrongEdits, demonstrator, garble
from agentic_gym.envs.swe.editing import without_numbers
from agentic_gym.envs.swe.pocket import line_repair, load_tasks
from agentic_gym.envs.swe.task import SWETask
from agentic_gym.tools import parse_action
from agentic_gym.types import Slip


@pytest.fixture(scope="module")
def train() -> list[SWETask]:
    return load_tasks("pocket", "train")


def play(policy: Demonstrator, task: SWETask, seed: int) -> list[list[Any]]:
    """Messages of an episode in which the tests pass when the file is as the gold patch makes it."""
    policy.reset(task, seed)
    repair = line_repair(task)
    base = task.base_files[repair.path].decode().splitlines()
    right = [*base[: repair.line - 1], repair.after, *base[repair.line :]]
    lines = base
    messages = []
    info: dict[str, Any] = {"tests_passed": 0, "tests_total": 2}
    for _ in range(20):
        calls = parse_action(policy.act("", info)).calls
        messages.append([(call.name, call.arguments) for call in calls])
        for name, arguments in messages[-1]:
            if name == "submit":
                return messages
            lines = written(base, arguments or {}) if name == "edit_lines" else base
        info = {"tests_passed": 2 if lines == right else 0, "tests_total": 2}
        if lines != base:
            info["edited"] = {}
    raise AssertionError("the demonstrator never submitted")


def written(lines: list[str], arguments: Mapping[str, Any]) -> list[str]:
    start, end = arguments["start"], arguments["end"]
    text = without_numbers(arguments["text"], start)
    assert text != arguments["text"]
    return [*lines[: start - 1], *text.split("\n"), *lines[end:]]


def test_it_ends_with_the_right_edit_and_submission(train: list[SWETask]) -> None:
    policy = Demonstrator(WrongEdits(train))
    lengths = set()
    for seed, task in enumerate(train[:60]):
        repair = line_repair(task)
        messages = play(policy, task, seed)
        lengths.add(len(messages))
        assert messages[-1] == [("submit", {})]
        name, arguments = messages[-2][-1]
        assert name == "edit_lines"
        assert arguments["path"] == repair.path
        assert arguments["start"] <= repair.line <= arguments["end"] < arguments["start"] + 8
        base = task.base_files[repair.path].decode().splitlines()
        changed = [
            number
            for number, (old, new) in enumerate(
                zip(base, written(base, arguments), strict=True), start=1
            )
            if old != new
        ]
        assert changed == [repair.line]
    assert len(lengths) > 1, "some begin with a wrong edit, some do not"


def test_what_was_changed_is_taken_back_first(train: list[SWETask]) -> None:
    policy = Demonstrator(WrongEdits(train), detour_rate=0.9)
    kinds = set()
    for seed, task in enumerate(train[:40]):
        base = task.base_files[line_repair(task).path].decode().splitlines()
        messages = play(policy, task, seed)
        for before, after in itertools.pairwise(messages[:-1]):
            changed = written(base, before[-1][1]) != base
            assert (after[0] == ("undo", {})) == changed
            kinds.add(changed)
    assert kinds == {True, False}, "some wrong edits write a block as it stands"


def test_equal_seeds_give_equal_episodes(train: list[SWETask]) -> None:
    policy = Demonstrator(WrongEdits(train), detour_rate=0.9)
    episodes = [play(policy, train[0], seed) for seed in (1, 2, 1)]
    assert episodes[0] == episodes[2]


def test_a_wrong_edit_that_passes_is_submitted(train: list[SWETask]) -> None:
    policy = Demonstrator(WrongEdits(train), detour_rate=1.0, slip_rate=1.0)
    base = train[0].base_files[line_repair(train[0]).path].decode().splitlines()
    for seed in range(20):
        policy.reset(train[0], seed)
        call = parse_action(policy.act("", {"tests_passed": 1, "tests_total": 2})).calls[0]
        if written(base, call.arguments or {}) != base:
            break
    answer = policy.act("", {"tests_passed": 2, "tests_total": 2, "edited": {}})
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
        shown = {(task.repo, edit.line, edit.text) for edit in wrong.of(task)}
        assert not shown & heldout
        assert (task.repo, repair.line, repair.before) not in shown


def test_no_heldout_bug_stands_in_a_block(train: list[SWETask]) -> None:
    heldout = {
        (task.repo, line_repair(task).line, line_repair(task).before)
        for split in ("heldout_bugs", "dev")
        for task in load_tasks("pocket", split)
    }
    policy = Demonstrator(WrongEdits(train), detour_rate=0.9)
    for task in train[::5]:
        for message in play(policy, task, 0):
            for name, arguments in message:
                if name == "edit_lines":
                    numbered = (line.partition("|") for line in arguments["text"].split("\n"))
                    lines = {(task.repo, int(number), text) for number, _, text in numbered}
                    assert not lines & heldout


def test_the_factory_reads_the_tasks_of_its_environment(train: list[SWETask]) -> None:
    class Env:
        tasks = train[:5]

    policy = demonstrator(Env())()
    assert play(policy, train[0], 0)[-1] == [("submit", {})]


def test_a_detour_ends_when_every_block_was_written() -> None:
    task = next(t for t in load_tasks("pocket", "train") if t.repo == "merge_intervals")
    policy = Demonstrator(WrongEdits([task]), detour_rate=1.0, max_detour=99, max_lines=100)
    messages = play(policy, task, 0)
    whole = blocks(task.base_files[line_repair(task).path].decode().splitlines(), 100)
    assert [message[-1][0] for message in messages] == ["edit_lines"] * len(whole) + ["submit"]


def test_edits_that_break_a_line_are_slips_and_others_are_not(train: list[SWETask]) -> None:
    policy = Demonstrator(WrongEdits(train), detour_rate=0.9, slip_rate=0.8)
    kinds = set()
    for task in train[:30]:
        policy.reset(task, 0)
        repair = line_repair(task)
        base = task.base_files[repair.path].decode().splitlines()
        for _ in range(5):
            message = policy.act("", {})
            call = parse_action(message).calls[0]
            if call.name == "submit":
                break
            lines = written(base, call.arguments or {})
            right = [*base[: repair.line - 1], repair.after, *base[repair.line :]]
            assert isinstance(message, Slip) == (lines not in (base, right))
            kinds.add(isinstance(message, Slip))
    assert kinds == {True, False}


def test_blocks_follow_one_another_from_the_last_to_the_first(train: list[SWETask]) -> None:
    policy = Demonstrator(WrongEdits(train), detour_rate=1.0, max_detour=99, slip_rate=0.0)
    wrapped = 0
    for task in train[::20]:
        messages = play(policy, task, 0)
        spans = [(edit["start"], edit["end"]) for *_, (_, edit) in messages[:-1]]
        path = line_repair(task).path
        assert len(set(spans)) == len(blocks(task.base_files[path].decode().splitlines()))
        first = min(spans)[0]
        for (_, end), (start, _) in itertools.pairwise(spans):
            wrapped += start < end
            assert start > end or (start == first and end == max(spans)[1])
    assert wrapped


def test_a_garbled_edit_is_never_the_edit_itself(train: list[SWETask]) -> None:
    action = Demonstrator(WrongEdits(train), detour_rate=0.0)
    action.reset(train[0], 0)
    right = action.act("", {})
    rng = random.Random(0)
    made = {garble(right, rng) for _ in range(200)}
    assert right not in made
    assert len(made) > 150
    assert all(text.startswith(right[:12]) for text in made), "it begins as the edit does"
    assert {bool(parse_action(text).calls[0].error) for text in made} == {True, False}


def test_a_garbled_edit_spells_no_spared_bug(train: list[SWETask]) -> None:
    tasks = load_tasks("pocket")
    spared = [task for task in tasks if task.split != "train"]
    policy = Demonstrator(WrongEdits(train), detour_rate=0.0, garble_rate=0.8, spared=spared)
    seen = 0
    for task in train[::40]:
        bugs = [
            json.dumps(line_repair(t).before.strip())[1:-1] for t in spared if t.repo == task.repo
        ]
        base = json.dumps(task.base_files[line_repair(task).path].decode())
        policy.reset(task, 0)
        messages = [policy.act("", {}) for _ in range(30)]
        for text in (text for text in messages if isinstance(text, Slip)):
            seen += 1
            assert not [bug for bug in bugs if bug in text and bug not in base]
    assert seen > 30


def test_a_garble_adds_nothing_that_is_to_be_avoided() -> None:
    action = '<tool_call>\n{"name": "edit_lines", "arguments": {"text": "aaaa"}}\n</tool_call>'
    for seed in range(30):
        made = garble(action, random.Random(seed), sorted(set(action)))
        assert made != action
        assert all(made.count(character) <= action.count(character) for character in set(action))


def test_some_demonstrators_give_up_after_a_first_edit(train: list[SWETask]) -> None:
    patient = Demonstrator(WrongEdits(train), detour_rate=0.9)
    mixed = Demonstrator(WrongEdits(train), detour_rate=0.9, give_up_rate=0.5)
    given_up = 0
    for seed, task in enumerate(train[:60]):
        full, messages = play(patient, task, seed), play(mixed, task, seed)
        assert messages[-1] == [("submit", {})]
        given_up += len(messages) == 2 < len(full)
    assert 15 < given_up < 45
