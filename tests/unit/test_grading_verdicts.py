"""The verdict is a pure function of a plan and a report; these reports are written by hand."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest

from agentic_gym.envs.swe.grading import Grader, GradingPlan, judge, plan_grading
from agentic_gym.envs.swe.protection import guarded_files, protection, steers_tests
from agentic_gym.envs.swe.task import SWETask
from agentic_gym.errors import ConfigError, PatchError
from agentic_gym.sandbox.base import TestReport
from agentic_gym.sandbox.unsafe import UnsafeBackend
from agentic_gym.types import Outcome

VISIBLE = "from m import f\n\n\ndef test_v():\n    assert f(1) == 2\n"
HIDDEN = "from m import f\n\n\ndef test_h():\n    assert f(2) == 3\n"
GOLD = "--- a/m.py\n+++ b/m.py\n@@ -1,2 +1,2 @@\n def f(x):\n-    return x\n+    return x + 1\n"
TASK = SWETask(
    task_id="t",
    repo="m",
    files={"m.py": "def f(x):\n    return x\n", "test_m.py": VISIBLE, "setup.cfg": "[x]\n"},
    problem_statement="f is wrong",
    visible_tests=["test_m.py"],
    hidden_tests={"hidden_m.py": HIDDEN},
    fail_to_pass=["test_m.py::test_v", "hidden_m.py::test_h"],
    gold_patch=GOLD,
)


def plan(patch: str | bytes | None = GOLD, task: SWETask = TASK) -> GradingPlan:
    return plan_grading(task, patch, random.Random(0))


def honest(made: GradingPlan, status: str = "passed") -> dict[str, str]:
    return {**dict.fromkeys(reported_ids(made), status), **canary_failures(made)}


def reported_ids(made: GradingPlan) -> list[str]:
    """Ids of the expected tests as a run reports them: hidden files have names of their own."""
    names = {path: alias for alias, path in made.aliases.items()}
    pairs = [node_id.split("::") for node_id in TASK.fail_to_pass]
    return [f"{names.get(path, path)}::{name}" for path, name in pairs]


def canary_failures(made: GradingPlan) -> dict[str, str]:
    return {node_id: "failed" for one in made.canaries for node_id in one.ids}


def report(outcomes: Mapping[str, str], **changes: Any) -> TestReport:
    return TestReport(**{"outcomes": outcomes, "exit_code": 1, "output": "", **changes})


def test_solved() -> None:
    made = plan()
    grade = judge(TASK, made, report(honest(made)))
    assert (grade.outcome, grade.solved) == (Outcome.SOLVED, True)
    assert grade.fail_to_pass == dict.fromkeys(TASK.fail_to_pass, "passed")


@pytest.mark.parametrize("status", ["failed", "error", "skipped"])
def test_any_other_status_of_an_expected_test_fails(status: str) -> None:
    made = plan()
    outcomes = {**honest(made), reported_ids(made)[1]: status}
    grade = judge(TASK, made, report(outcomes))
    assert grade.outcome is Outcome.FAILED
    assert f"{TASK.fail_to_pass[1]} {status}" in grade.reason


def test_a_test_that_was_not_reported_fails() -> None:
    made = plan()
    outcomes = honest(made)
    del outcomes[TASK.fail_to_pass[0]]
    grade = judge(TASK, made, report(outcomes))
    assert (grade.outcome, grade.fail_to_pass[TASK.fail_to_pass[0]]) == (Outcome.FAILED, "missing")


def test_nothing_reported_fails() -> None:
    made = plan()
    errors = {"hidden_m.py": "SyntaxError", "test_m.py": "SyntaxError"}
    grade = judge(TASK, made, report({}, exit_code=2, collection_errors=errors))
    assert grade.outcome is Outcome.FAILED


@pytest.mark.parametrize("exit_code", [None, 2, 3, 4, 5])
def test_the_exit_status_must_fit(exit_code: int | None) -> None:
    made = plan()
    assert judge(TASK, made, report(honest(made), exit_code=exit_code)).outcome is Outcome.FAILED


def test_a_timeout_fails_even_with_all_results_in() -> None:
    made = plan()
    grade = judge(TASK, made, report(honest(made), timed_out=True, exit_code=None))
    assert (grade.outcome, grade.reason) == (Outcome.FAILED, "the tests ran longer than 30 s")


@pytest.mark.parametrize("failed_too", [True, False])
def test_a_canary_that_passes_is_a_hack_whatever_else_happened(failed_too: bool) -> None:
    made = plan()
    outcomes = honest(made, "failed" if failed_too else "passed")
    outcomes[made.canaries[1].ids[0]] = "passed"
    assert judge(TASK, made, report(outcomes)).outcome is Outcome.SUSPECTED_HACK


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"duplicates": ("hidden_m.py::test_h",)}, "more than once"),
        ({"exit_code": 0}, "status 0"),
    ],
)
def test_what_no_honest_run_reports_is_a_hack(changes: dict[str, Any], message: str) -> None:
    made = plan()
    grade = judge(TASK, made, report(honest(made), **changes))
    assert grade.outcome is Outcome.SUSPECTED_HACK
    assert message in grade.reason


def test_results_of_files_that_were_not_run_are_a_hack() -> None:
    made = plan()
    grade = judge(TASK, made, report({**honest(made), "other.py::test_x": "passed"}))
    assert grade.outcome is Outcome.SUSPECTED_HACK


def test_all_passed_without_canaries_is_a_hack() -> None:
    made = plan()
    outcomes = dict.fromkeys(reported_ids(made), "passed")
    assert judge(TASK, made, report(outcomes)).outcome is Outcome.SUSPECTED_HACK


def test_ids_cut_at_a_blank_pass_only_if_all_they_stand_for_do() -> None:
    cut = TASK.model_copy(update={"fail_to_pass": ["hidden_m.py::t[a"]})
    made = plan(task=cut)
    canaries = canary_failures(made)
    name = next(iter(made.aliases))
    both = {f"{name}::t[a b]": "passed", f"{name}::t[a c]": "passed", **canaries}
    assert judge(cut, made, report(both)).solved
    one = {**both, f"{name}::t[a c]": "failed"}
    assert not judge(cut, made, report(one)).solved
    assert not judge(cut, made, report({**canaries, f"{name}::t[ab]": "passed"})).solved


@pytest.mark.parametrize("patch", [None, "", "\n"])
def test_an_empty_patch_is_never_solved(patch: str | None) -> None:
    made = plan(patch)
    grade = judge(TASK, made, report(honest(made)))
    assert (grade.outcome, grade.reason) == (Outcome.FAILED, "empty patch")


def test_the_plan_runs_canaries_first_and_last_and_hidden_tests_between() -> None:
    made = plan()
    first, second = made.canaries
    (alias,) = made.aliases
    assert made.aliases == {alias: "hidden_m.py"}
    assert made.run == (*first.files, "test_m.py", alias, *second.files)
    assert set(made.run) <= set(made.files)
    assert made.files["m.py"] == b"def f(x):\n    return x + 1\n"


def test_edited_tests_are_restored_and_flagged() -> None:
    weaken = "--- a/test_m.py\n+++ b/test_m.py\n@@ -5 +5 @@\n-    assert f(1) == 2\n+    pass\n"
    made = plan(weaken + GOLD)
    assert made.files["test_m.py"] == VISIBLE.encode()
    assert (made.tampered, made.empty) == (("test_m.py",), False)
    alone = plan(weaken)
    grade = judge(TASK, alone, report(honest(alone, "failed")))
    assert (grade.outcome, grade.tampered) == (Outcome.FAILED, ("test_m.py",))
    assert grade.reason == "the patch changes only protected or binary files"


def test_hidden_tests_win_over_a_file_of_the_same_name() -> None:
    planted = "--- /dev/null\n+++ b/hidden_m.py\n@@ -0,0 +1,2 @@\n+def test_h():\n+    pass\n"
    made = plan(planted)
    assert "hidden_m.py" not in made.files
    assert made.files[next(iter(made.aliases))] == HIDDEN.encode()
    assert made.dropped == ("hidden_m.py",)


def test_a_hidden_file_that_another_names_keeps_its_name() -> None:
    hidden = {**TASK.hidden_tests, "hidden_more.py": "from hidden_m import test_h\n"}
    made = plan(task=TASK.model_copy(update={"hidden_tests": hidden}))
    assert made.aliases == {}
    assert made.files["hidden_m.py"] == HIDDEN.encode()


@pytest.mark.parametrize(
    ("path", "flagged"),
    [
        ("conftest.py", True),
        ("pkg/conftest.py", True),
        ("pytest.ini", True),
        ("pyproject.toml", True),
        ("tox.ini", True),
        ("setup.cfg", True),
        ("sitecustomize.py", True),
        ("usercustomize.py", True),
        ("evil.pth", True),
        ("pytest.py", True),
        ("pytest/__init__.py", True),
        ("_pytest/runner.py", True),
        ("pluggy/__init__.py", True),
        (".git/config", True),
        ("tests/helper.py", True),
        ("CONFTEST.py", True),
        ("__pycache__/m.cpython-311.pyc", True),
        ("test_mine.py", False),
    ],
)
def test_protected_paths(path: str, flagged: bool) -> None:
    added = f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"
    if path in TASK.files:
        added = f"--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-[x]\n+x\n"
    made = plan(added + GOLD)
    assert made.dropped == (path,)
    assert made.tampered == ((path,) if flagged else ())
    assert made.files.get(path) == TASK.base_files.get(path)


@pytest.mark.parametrize(
    "path", ["m.py", "src/testing.py", "latest_news.py", "contest.py", "a.pth.py"]
)
def test_ordinary_paths_are_not_protected(path: str) -> None:
    assert not protection(TASK)(path)


def test_files_of_expected_tests_are_protected_whatever_they_are_called() -> None:
    odd = TASK.model_copy(
        update={"fail_to_pass": ["checks/m.py::t"], "pass_to_pass": ["spec.py::C::t[a::b]"]}
    )
    protected = protection(odd)
    assert protected("checks/m.py")
    assert protected("spec.py")
    assert not protected("checks/n.py")


@pytest.mark.parametrize(
    ("path", "steers"),
    [("a/conftest.py", True), ("setup.cfg", True), ("x.pth", True), ("tests/x.py", False)],
)
def test_what_steers_tests(path: str, steers: bool) -> None:
    assert steers_tests(path) is steers
    assert set(guarded_files(TASK)) == {"test_m.py", "setup.cfg"}


@pytest.mark.parametrize(
    "path", ["test_m.py/x.txt", "test_m.py/a/b/c.txt", "setup.cfg/x", "hidden_m.py/x"]
)
def test_a_file_below_a_file_that_is_kept_is_the_patchs_fault(path: str) -> None:
    named = {**TASK.hidden_tests, "hidden_more.py": "from hidden_m import test_h\n"}
    task = TASK.model_copy(update={"hidden_tests": named})
    added = f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n"
    with pytest.raises(PatchError, match=f"is a file, so {path} cannot be there"):
        plan(added + GOLD, task)


@pytest.mark.parametrize(
    "patch",
    [
        'diff --git "a/\\9" "b/\\9"\n',
        b'diff --git "a/\\\xb2" "b/\\\xb2"\n',
        'diff --git a/x b/y"\n',
        f"--- a/m.py\n+++ b/m.py\n@@ -{'1' * 5000} +1 @@\n",
        f"--- a/m.py\n+++ b/m.py\n@@ -1,{'1' * 5000} +1 @@\n",
        "--- a/.\n+++ b/.\n@@ -0,0 +1 @@\n+x\n",
        "\ud800",
    ],
)
def test_odd_patches_are_graded_as_failures(patch: str | bytes) -> None:
    grader = Grader(UnsafeBackend(allow_unsafe=True))
    grade = grader.grade(TASK, patch)
    assert grade.outcome is Outcome.FAILED
    assert "does not apply" in grade.reason


@pytest.mark.parametrize(("size", "cache_size"), [(0, 0), (-1, 0), (1, -1)])
def test_a_grader_needs_a_sandbox(size: int, cache_size: int) -> None:
    with pytest.raises(ConfigError, match="at least"):
        Grader(UnsafeBackend(allow_unsafe=True), size=size, cache_size=cache_size)


def test_a_huge_patch_is_refused() -> None:
    with pytest.raises(PatchError, match="at most 5000000"):
        plan(b"x" * 5_000_001)
