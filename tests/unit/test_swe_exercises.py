"""Exercises are made from train tasks, and hold nothing that is kept out of training."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

import pytest

from agentic_gym.envs.swe.exercises import MARK, Exercise, Exercises
from agentic_gym.envs.swe.pocket import line_repair, load_tasks
from agentic_gym.envs.swe.task import SWETask
from agentic_gym.errors import TaskError

MODULES = ("luhn", "leap_year", "top_k")


def tasks(*, train: bool) -> list[SWETask]:
    return [
        task
        for task in load_tasks("pocket")
        if task.repo in MODULES and (task.split == "train") == train
    ]


@pytest.fixture(scope="module")
def exercises() -> Exercises:
    return Exercises(tasks(train=True), tasks(train=False), seed=0)


def numbered(lines: Iterable[str]) -> dict[int, str]:
    parts = (line.partition("|") for line in lines)
    return {int(number): text for number, _, text in parts}


def shown(exercise: Exercise) -> tuple[str, dict[int, str]]:
    """The path of a prompt, and its lines by number."""
    path, *lines = exercise.prompt.split("\n")
    return path, numbered(lines)


def answered(exercise: Exercise) -> dict[int, str]:
    return numbered(exercise.answer.split("\n"))


def right_lines() -> dict[str, list[str]]:
    """The right text of the modules, by path."""
    right = {}
    for task in tasks(train=True):
        repair = line_repair(task)
        lines = task.base_files[repair.path].decode().splitlines()
        lines[repair.line - 1] = repair.after
        right[repair.path] = lines
    return right


def in_some_order(lines: Iterable[str]) -> Counter[str]:
    """Definitions may have changed places."""
    return Counter(line for line in lines if line)


def test_the_answers_give_back_the_right_text(exercises: Exercises) -> None:
    right = right_lines()
    for _ in range(50):
        for exercise in (exercises.repairing(max_bugs=4), exercises.rewriting()):
            path, lines = shown(exercise)
            assert in_some_order((lines | answered(exercise)).values()) == in_some_order(
                right[path]
            )


def test_repairing_asks_for_the_broken_lines_in_order(exercises: Exercises) -> None:
    counts = set()
    for _ in range(50):
        exercise = exercises.repairing(max_bugs=4, marked=0.0)
        _, lines = shown(exercise)
        answer = answered(exercise)
        assert list(answer) == sorted(answer)
        assert all(lines[number] != text for number, text in answer.items())
        counts.add(len(answer))
    assert counts == {1, 2, 3, 4}


def test_rewriting_asks_for_every_line_in_any_order(exercises: Exercises) -> None:
    exercise = exercises.rewriting()
    _, lines = shown(exercise)
    answer = list(answered(exercise))
    assert sorted(answer) == [number for number, text in lines.items() if text]
    assert answer != sorted(answer)


def test_no_line_of_another_split_is_broken_and_none_of_its_bugs_is_shown(
    exercises: Exercises,
) -> None:
    spared_lines, bugs = defaultdict(set), set()
    for task in tasks(train=False):
        repair = line_repair(task)
        spared_lines[repair.path].add(repair.after.strip())
        bugs.add(repair.before.strip())
    right = right_lines()
    for _ in range(300):
        exercise = exercises.repairing()
        path, lines = shown(exercise)
        always = {text.strip() for text in right[path]}
        for text in answered(exercise).values():
            assert text.strip() in always - spared_lines[path]
        for text in lines.values():
            assert text.strip().removesuffix(MARK) not in bugs - always


def test_marks_are_on_the_broken_lines_alone(exercises: Exercises) -> None:
    for marked in (0.0, 1.0):
        exercise = exercises.repairing(marked=marked)
        _, lines = shown(exercise)
        found = {number for number, text in lines.items() if text.endswith(MARK)}
        assert found == (set(answered(exercise)) if marked else set())


def test_definitions_change_places() -> None:
    task = next(task for task in tasks(train=True) if task.repo == "luhn")

    def orders(shuffled: float) -> set[tuple[str, ...]]:
        made = Exercises([task], (), seed=0, shuffled=shuffled)
        files = (shown(made.repairing())[1].values() for _ in range(30))
        return {tuple(t[:12] for t in file if t.startswith('    """')) for file in files}

    assert len(orders(0.0)) == 1
    assert len(orders(1.0)) > 3


def test_equal_seeds_give_equal_exercises() -> None:
    def some(seed: int) -> list[Exercise]:
        made = Exercises(tasks(train=True)[:1], (), seed=seed)
        return [made.rewriting(), made.repairing()]

    assert some(1) == some(1) != some(2)


def test_tasks_of_which_every_line_is_spared_are_refused() -> None:
    repairs = [task for task in tasks(train=True) if task.repo == "luhn"]
    right = right_lines()["luhn.py"]
    spared = []
    for text in right:
        patch = f"--- a/luhn.py\n+++ b/luhn.py\n@@ -1 +1 @@\n-broken\n+{text}\n"
        spared.append(repairs[0].model_copy(update={"gold_patch": patch}))
    with pytest.raises(TaskError, match="spared"):
        Exercises(repairs, spared, seed=0)
