"""The bundled set as it ships: sizes, splits that do not leak, repairs that repair."""

import ast
import json
from collections import defaultdict

import pytest

from agentic_gym.envs.swe.injection import OPERATORS
from agentic_gym.envs.swe.patches import apply_patch, parse_patch
from agentic_gym.envs.swe.pocket import (
    DATA,
    SPLITS,
    LineRepair,
    line_repair,
    load_tasks,
    pocket_modules,
)
from agentic_gym.envs.swe.pocket_build import card, unified_diff
from agentic_gym.envs.swe.task import SWETask
from agentic_gym.errors import TaskError

MODULES = {module.name: module for module in pocket_modules()}
TASKS = load_tasks("pocket")
UNSEEN = {task.repo for task in TASKS if task.split == "heldout_modules"}


def source(task: SWETask) -> str:
    return task.files[f"{task.repo}.py"]


def test_there_are_enough_modules_with_enough_tests() -> None:
    assert len(MODULES) >= 60
    for module in MODULES.values():
        tests = [
            node.name
            for node in ast.walk(ast.parse(module.visible))
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test")
        ]
        assert len(tests) >= 6, module.name


def test_there_are_enough_tasks_of_every_kind() -> None:
    assert len(TASKS) >= 600
    assert {task.operator for task in TASKS} == {operator.name for operator in OPERATORS}
    assert {task.split for task in TASKS} == set(SPLITS)
    assert {"syntax", "import", "name", "type", "exception", "timeout", "logic"} == {
        task.error_class for task in TASKS
    }
    assert {task.repo for task in TASKS} == set(MODULES)


def test_the_card_says_what_the_file_holds() -> None:
    assert json.loads((DATA / "pocket.card.json").read_text()) == card(TASKS)


def test_each_task_is_its_module_with_one_line_changed() -> None:
    for task in TASKS:
        module = MODULES[task.repo]
        assert task.files[f"test_{task.repo}.py"] == module.visible
        assert task.hidden_tests == {f"hidden_{task.repo}.py": module.hidden}
        repair = line_repair(task)
        lines = source(task).split("\n")
        assert lines[repair.line - 1] == repair.before
        lines[repair.line - 1] = repair.after
        assert "\n".join(lines) == module.source


def test_the_gold_patch_gives_the_right_module() -> None:
    for task in TASKS[::7]:
        patched = apply_patch(task.base_files, parse_patch(task.gold_patch))
        assert patched[f"{task.repo}.py"].decode() == MODULES[task.repo].source


def test_every_task_shows_itself_in_a_visible_test() -> None:
    for task in TASKS:
        assert any(node.startswith(f"test_{task.repo}.py::") for node in task.fail_to_pass)


def test_no_task_comes_twice() -> None:
    assert len({task.task_id for task in TASKS}) == len(TASKS)
    assert len({source(task) for task in TASKS}) == len(TASKS)


def test_the_statement_does_not_show_the_line() -> None:
    for task in TASKS:
        repair = line_repair(task)
        assert f"line {repair.line}" not in task.problem_statement
        for text in (repair.before.strip(), repair.after.strip()):
            assert len(text) < 12 or text not in task.problem_statement, task.task_id


def test_no_line_has_bugs_in_two_splits() -> None:
    splits: dict[tuple[str, int], set[str]] = defaultdict(set)
    texts: dict[tuple[str, str], set[str]] = defaultdict(set)
    for task in TASKS:
        repair = line_repair(task)
        splits[task.repo, repair.line].add(task.split)
        texts[task.repo, repair.after.strip()].add(task.split)
    assert all(len(found) == 1 for found in splits.values())
    assert all(len(found) == 1 for found in texts.values())


def test_no_text_of_a_held_out_module_occurs_in_train() -> None:
    train = [task for task in TASKS if task.split in ("train", "dev", "heldout_bugs")]
    assert UNSEEN.isdisjoint(task.repo for task in train)
    seen = "\0".join(
        text for task in train for text in {**task.files, **task.hidden_tests}.values()
    )
    for name in UNSEEN:
        for node in ast.parse(MODULES[name].source).body:
            if isinstance(node, ast.FunctionDef):
                assert str(ast.get_source_segment(MODULES[name].source, node)) not in seen


def test_no_buggy_module_of_another_split_occurs_in_train() -> None:
    train = {source(task) for task in TASKS if task.split == "train"}
    assert train.isdisjoint(source(task) for task in TASKS if task.split != "train")


def test_held_out_shares() -> None:
    seen = [task for task in TASKS if task.split != "heldout_modules"]
    share = sum(task.split == "heldout_bugs" for task in seen) / len(seen)
    assert 0.15 <= share <= 0.25
    assert len(UNSEEN) == 10


def test_line_repair_refuses_other_patches() -> None:
    task = TASKS[0]
    text = source(task)
    for after in (text + "x = 1\n", text.replace("return", "yield")):
        patch = unified_diff(f"{task.repo}.py", text, after)
        with pytest.raises(TaskError, match="the gold patch"):
            line_repair(task.model_copy(update={"gold_patch": patch}))


def test_line_repair_of_a_file_without_a_last_newline() -> None:
    patch = unified_diff("m.py", "a = 1\nb = 2", "a = 1\nb = 3")
    task = TASKS[0].model_copy(update={"gold_patch": patch})
    assert line_repair(task) == LineRepair("m.py", 2, "b = 2", "b = 3")
