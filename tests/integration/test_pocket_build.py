"""Building and validating in real sandboxes."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentic_gym.envs.swe.grading import Grader
from agentic_gym.envs.swe.injection import OPERATORS, mutate_all
from agentic_gym.envs.swe.pocket import line_repair, load_tasks, pocket_modules
from agentic_gym.envs.swe.pocket_build import SandboxRuns, build_module, observe, unified_diff
from agentic_gym.envs.swe.task import write_tasks
from agentic_gym.envs.swe.task_commands import TASKS
from agentic_gym.envs.swe.validation import validate_task, validate_tasks
from agentic_gym.errors import TaskError
from agentic_gym.sandbox.select import select_backend

pytestmark = pytest.mark.slow
MODULES = {module.name: module for module in pocket_modules()}


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    grader = Grader(select_backend(), size=2)
    yield grader
    grader.close()


@pytest.fixture(scope="module")
def runs() -> Iterator[SandboxRuns]:
    runs = SandboxRuns(select_backend())
    yield runs
    runs.close()


def test_a_rebuild_gives_the_shipped_bytes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["clamp_scale", "slugify"]
    output = tmp_path / "some.jsonl"
    assert TASKS.run(["make", "pocket", "--output", str(output), "--modules", *names]) == 0
    shipped = [task for task in load_tasks("pocket") if task.repo in names]
    write_tasks(shipped, tmp_path / "shipped.jsonl")
    assert output.read_bytes() == (tmp_path / "shipped.jsonl").read_bytes()
    card = json.loads((tmp_path / "some.card.json").read_text())
    assert card["tasks"] == len(shipped)
    assert f"{len(shipped)} tasks of 2 modules" in capsys.readouterr().out


def test_one_task_of_every_operator_is_sound(grader: Grader) -> None:
    tasks = {task.operator: task for task in load_tasks("pocket") if task.error_class != "timeout"}
    assert len(tasks) == len(OPERATORS)
    for result in validate_tasks(list(tasks.values()), grader, repeats=1):
        assert result.problems == ()


def test_a_task_that_hangs_is_sound(grader: Grader) -> None:
    task = next(task for task in load_tasks("pocket") if task.error_class == "timeout")
    quick = task.model_copy(update={"grade_timeout_s": 5.0})
    assert validate_task(quick, grader, repeats=1).problems == ()


def test_validation_finds_what_is_wrong(grader: Grader) -> None:
    task = load_tasks("pocket", "dev")[0]
    path = line_repair(task).path
    right = MODULES[task.repo].source
    useless = task.model_copy(
        update={"gold_patch": unified_diff(path, task.files[path], task.files[path] + "# x\n")}
    )
    (problem,) = validate_task(useless, grader, repeats=1).problems
    assert "not graded as solved" in problem
    solved = task.model_copy(update={"files": {**task.files, path: right}, "gold_patch": ""})
    problems = validate_task(solved, grader, repeats=1).problems
    assert any("tests of fail_to_pass pass" in problem for problem in problems)


def test_a_module_that_fails_its_own_tests_is_refused(runs: SandboxRuns) -> None:
    module = MODULES["roman"]
    wrong = type(module)("roman", module.source.replace("4000", "3"), "def test_a(): assert 0", "")
    with pytest.raises(TaskError, match="does not pass its own tests"):
        build_module(wrong, runs)


def test_outcomes_that_depend_on_the_order_of_a_set_are_not_stable(runs: SandboxRuns) -> None:
    source = "def first():\n    return list({str(i) for i in range(1000)})[:9]\n"
    test = "from unstable import first\ndef test_a(): assert first() == 1\n"
    module = type(MODULES["roman"])("unstable", source, test, "def test_b(): pass\n")
    assert observe(module, source, runs) is None  # what the failing test shows differs


def test_a_mutation_that_hangs_is_observed(runs: SandboxRuns) -> None:
    source = "def f():\n    while True:\n        break\n    return 1\n"
    test = "from loops import f\ndef test_a(): pass\ndef test_b(): assert f() == 1\n"
    module = type(MODULES["roman"])("loops", source, test, "def test_c(): pass\n")
    hanging = next(m for m in mutate_all(source) if m.after.strip() == "pass")
    seen = observe(module, hanging.source, runs)
    assert seen is not None
    assert seen.hangs
    assert seen.passed == ("test_loops.py::test_a",)
    assert seen.symptom is not None
    assert seen.symptom.error_class == "timeout"
