import pytest

from agentic_gym.envs.swe.injection.symptoms import (
    MESSAGE_LIMIT,
    Symptom,
    error_class,
    problem_statement,
    symptom,
)
from agentic_gym.sandbox.base import TestReport

OUTPUT = """.F.
=========== FAILURES ===========
___________ test_b ___________
test_m.py:7: in test_b
    assert f(1) == 2
E   assert 3 == 2
E    +  where 3 = f(1)
___________ TestK.test_c[x] ___________
m.py:3: in f
    return [0][i]
E   IndexError: list index out of range
=========== short test summary info ===========
FAILED test_m.py::test_b - assert 3 == 2
"""


def report(outcomes: dict[str, str], **more: object) -> TestReport:
    return TestReport(outcomes, 1, OUTPUT, **more)  # type: ignore[arg-type]


def test_the_first_failing_visible_test_decides() -> None:
    outcomes = {
        "hidden_m.py::test_z": "failed",
        "test_m.py::test_a": "passed",
        "test_m.py::test_b": "failed",
        "test_m.py::TestK::test_c[x]": "failed",
    }
    assert symptom(report(outcomes), "test_m.py") == Symptom("logic", "test_b", "assert 3 == 2")


def test_methods_and_parameters_are_found_in_the_output() -> None:
    found = symptom(report({"test_m.py::TestK::test_c[x]": "failed"}), "test_m.py")
    assert found == Symptom("exception", "TestK::test_c[x]", "IndexError: list index out of range")


def test_no_symptom_without_a_visible_failure() -> None:
    outcomes = {"test_m.py::test_b": "passed", "hidden_m.py::test_b": "failed"}
    assert symptom(report(outcomes), "test_m.py") is None


def test_a_module_that_cannot_be_imported() -> None:
    text = (
        'E     File "/workspace/m.py", line 11\nE       x = "\nE   SyntaxError: bad (m.py, line 11)'
    )
    found = symptom(report({}, collection_errors={"test_m.py": text}), "test_m.py")
    assert found == Symptom("syntax", "", "SyntaxError: bad")
    assert problem_statement("m", found) == (
        "`m.py` cannot be imported: SyntaxError: bad. Repair m.py so that the tests pass."
    )


@pytest.mark.parametrize(
    "text",
    [
        "SyntaxError: unterminated string literal (detected at line 7)",
        "IndentationError: expected an indented block after 'if' statement on line 7",
        "ImportError: cannot import name 'f' from 'm' (/workspace/m7.py)",
    ],
)
def test_the_message_does_not_say_where(text: str) -> None:
    found = symptom(report({}, collection_errors={"test_m.py": f"E   {text}"}), "test_m.py")
    assert found is not None
    assert found.message == text.split(" (")[0].split(" on line")[0]


def test_a_run_that_never_ends() -> None:
    found = symptom(report({}, timed_out=True), "test_m.py")
    assert found == Symptom("timeout", "", "")
    assert "hangs" in problem_statement("m", found)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("assert 1 == 2", "logic"),
        ("AssertionError: assert 1", "logic"),
        ("Failed: DID NOT RAISE <class 'ValueError'>", "logic"),
        ("NameError: name 'x' is not defined", "name"),
        ("UnboundLocalError: cannot access", "name"),
        ("ModuleNotFoundError: No module named 'mah'", "import"),
        ("TypeError: f() takes 1", "type"),
        ("KeyError: 'a'", "exception"),
        ("json.decoder.JSONDecodeError: Expecting value", "exception"),
        ("IndentationError: unexpected indent", "syntax"),
    ],
)
def test_error_classes(message: str, expected: str) -> None:
    assert error_class(message) == expected


def test_messages_are_short_and_hold_no_address() -> None:
    text = "E   AssertionError: assert <f at 0x7f12ab34cd56> == " + "9" * 300
    found = symptom(report({}, collection_errors={"test_m.py": text}), "test_m.py")
    assert found is not None
    assert len(found.message) == MESSAGE_LIMIT
    assert found.message.startswith("assert <f at 0x…> == 999")


@pytest.mark.parametrize("output", ["", "x" * 100, "killed\n"])
def test_output_without_any_section_still_gives_a_symptom(output: str) -> None:
    """It may be cut short, or replaced by the code under test: that is no fault of the machinery."""
    found = symptom(TestReport({"test_a.py::test_one": "failed"}, 1, output), "test_a.py")
    assert found is not None
    assert found.test == "test_one"
    assert found.message
