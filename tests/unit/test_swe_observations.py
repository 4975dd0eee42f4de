from __future__ import annotations

from collections.abc import Mapping

import pytest

from agentic_gym.envs.swe.observations import (
    describe_exec,
    first_observation,
    passed_fraction,
    summarise_tests,
)
from agentic_gym.envs.swe.task import SWETask
from agentic_gym.sandbox.base import ExecResult, TestReport

OUTPUT = """\
F.F                                                                      [100%]
=================================== FAILURES ===================================
____________________________________ test_a ____________________________________
test_m.py:4: in test_a
    assert f(1) == 2
E   AssertionError: assert 1 == 2
E    +  where 1 = f(1)
__________________________________ TestC.test_c[x y] ___________________________
test_m.py:9: in test_c
    f(None)
E   TypeError: unsupported operand
=========================== short test summary info ============================
FAILED test_m.py::test_a - AssertionError: assert 1 == 2
2 failed, 1 passed in 0.03s
"""
REPORT = TestReport(
    {
        "test_m.py::test_a": "failed",
        "test_m.py::test_b": "passed",
        "test_m.py::TestC::test_c[x y]": "failed",
    },
    1,
    OUTPUT,
)
BROKEN = TestReport(
    {},
    2,
    "",
    collection_errors={"test_m.py": 'E     File "m.py", line 1\nE   SyntaxError: invalid syntax\n'},
)
TASK = SWETask(
    task_id="t",
    repo="m",
    files={"m.py": "def f(x):\n    return x\n", "test_m.py": "x"},
    problem_statement="f is wrong",
    visible_tests=["test_m.py"],
    fail_to_pass=["test_m.py::test_a"],
    gold_patch="",
)


def test_compact_summary_is_a_count_and_the_first_failure() -> None:
    assert summarise_tests(REPORT, limit=500, compact=True) == (
        "1 passed, 2 failed\ntest_a: assert 1 == 2"
    )


def test_long_summary_has_the_failures_but_no_timing() -> None:
    text = summarise_tests(REPORT, limit=2_000)
    assert text.startswith("1 passed, 2 failed\n")
    assert "assert f(1) == 2" in text
    assert "TypeError: unsupported operand" in text
    assert "0.03s" not in text


@pytest.mark.parametrize("compact", [True, False])
def test_files_that_cannot_be_collected_are_named(compact: bool) -> None:
    text = summarise_tests(BROKEN, limit=500, compact=compact)
    assert text == "test_m.py: SyntaxError: invalid syntax"


def test_runs_that_ended_badly_say_so() -> None:
    hung = TestReport({"t.py::a": "passed"}, None, "", timed_out=True)
    assert summarise_tests(hung, limit=99) == "1 passed, timed out"
    died = TestReport({}, None, "")
    assert summarise_tests(died, limit=99) == "the test process died"
    assert summarise_tests(TestReport({}, 5, ""), limit=99) == "no tests ran"


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ({}, 0.0),
        ({"a": "passed", "b": "failed"}, 0.5),
        ({"a": "passed", "b": "skipped"}, 1.0),
        ({"a": "error"}, 0.0),
    ],
)
def test_passed_fraction(outcomes: Mapping[str, str], expected: float) -> None:
    assert passed_fraction(TestReport(outcomes, 1, "")) == expected
    assert passed_fraction(TestReport(outcomes, None, "", timed_out=True)) == 0.0
    assert passed_fraction(TestReport(outcomes, None, "")) == 0.0  # it died on the way
    assert passed_fraction(TestReport(outcomes, 1, "", collection_errors={"t.py": "x"})) == 0.0


def test_first_observation_compact() -> None:
    text = first_observation(TASK, REPORT, limit=999, show_file=False, compact=True)
    assert text == (
        "m.py\n1|def f(x):\n2|    return x\n\n1 passed, 2 failed\ntest_a: assert 1 == 2"
    )


def test_first_observation_compact_tells_the_problem_if_no_test_does() -> None:
    report = TestReport({"test_m.py::test_a": "passed"}, 0, "")
    text = first_observation(TASK, report, limit=999, show_file=False, compact=True)
    assert text.startswith("f is wrong\n\nm.py\n")


@pytest.mark.parametrize("show_file", [True, False])
def test_first_observation_long(show_file: bool) -> None:
    text = first_observation(TASK, REPORT, limit=999, show_file=show_file, compact=False)
    assert text.startswith(
        "f is wrong\n\nFiles:\nm.py\ntest_m.py\n\nVisible tests: python -m pytest"
    )
    assert ("2|    return x" in text) is show_file


def test_files_over_the_limit_are_left_out() -> None:
    text = first_observation(TASK, REPORT, limit=10, show_file=False, compact=True)
    assert "def f" not in text


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (ExecResult(0, "a\n", 2), "a"),
        (ExecResult(0, "", 0), "(no output)"),
        (ExecResult(3, "a\n", 2), "a\n[exit code 3]"),
        (
            ExecResult(124, "a", 1, timed_out=True, duration_s=2.0),
            "a\n[timed out after 2 s; its processes were ended]",
        ),
        (ExecResult(137, "", 0, oom=True), "[ended: out of memory]"),
    ],
)
def test_describe_exec(result: ExecResult, expected: str) -> None:
    assert describe_exec(result, limit=100) == expected
