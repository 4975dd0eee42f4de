"""What the tests show of a bug: the error class and the report that the agent is given.

Pure functions on a test report. The report to the agent names a failing test and its message, never a
line of the module.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from agentic_gym.envs.swe.task import ErrorClass
from agentic_gym.sandbox.base import TestReport

_SECTION = re.compile(r"^_{3,} (?P<title>\S.*?) _{3,}$", re.MULTILINE)
_ERROR_LINE = re.compile(r"^E {2,}(?P<text>\S.*)$", re.MULTILINE)
_EXCEPTION = re.compile(r"^(?:[\w.]+\.)?(?P<name>[A-Z]\w*)(?:: |$)")
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
_PLACE = re.compile(r" \(\S+\.py(?:, line \d+)?\)| \(detected at line \d+\)| on line \d+")
_CLASSES: dict[str, ErrorClass] = {
    **dict.fromkeys(("SyntaxError", "IndentationError", "TabError"), "syntax"),
    **dict.fromkeys(("ImportError", "ModuleNotFoundError"), "import"),
    **dict.fromkeys(("NameError", "UnboundLocalError"), "name"),
    **dict.fromkeys(("AssertionError", "Failed"), "logic"),
    "TypeError": "type",
}
MESSAGE_LIMIT = 120


@dataclass(frozen=True, slots=True)
class Symptom:
    """What the first failing visible test shows.

    Attributes:
        error_class: which kind of failure it is.
        test: name of the test without its file; "" where nothing could be collected.
        message: what it says, on one line.
    """

    error_class: ErrorClass
    test: str
    message: str


def symptom(report: TestReport, visible: str) -> Symptom | None:
    """Reads the first failure of the visible tests from a report, None if they pass.

    Args:
        report: of a run with ``--tb=short``.
        visible: path of the visible test file.
    """
    if report.timed_out:
        return Symptom("timeout", "", "")
    if visible in report.collection_errors:
        message = _message(report.collection_errors[visible])
        return Symptom(error_class(message), "", message)
    for node_id, outcome in report.outcomes.items():
        path, _, test = node_id.partition("::")
        if path == visible and outcome in ("failed", "error"):
            message = _message(_section(report.output, test))
            return Symptom(error_class(message), test, message)
    return None


def error_class(message: str) -> ErrorClass:
    """The class of a failure by what pytest prints of it.

    >>> error_class("assert 1 == 2"), error_class("KeyError: 'a'"), error_class("TypeError: no")
    ('logic', 'exception', 'type')
    """
    match = _EXCEPTION.match(message)
    if match is None:
        return "logic"
    return _CLASSES.get(match["name"], "exception")


def problem_statement(module: str, found: Symptom) -> str:
    """The report of a user who saw the failure.

    >>> print(problem_statement("roman", Symptom("logic", "test_one", "assert 'I' == 'II'")))
    `roman.py` is wrong: test_one fails with "assert 'I' == 'II'". Repair roman.py so that the tests pass.
    """
    if found.error_class == "timeout":
        what = f"`{module}.py` hangs: its tests never finish."
    elif not found.test:
        what = f"`{module}.py` cannot be imported: {_ended(found.message)}"
    else:
        what = f'`{module}.py` is wrong: {found.test} fails with "{found.message}".'
    return f"{what} Repair {module}.py so that the tests pass."


def _ended(text: str) -> str:
    return text if text.endswith((".", "?", "!")) else f"{text}."


def _section(output: str, test: str) -> str:
    """The part of pytest's output that is about one test."""
    wanted = test.replace("::", ".")
    parts = list(_SECTION.finditer(output))
    ends = [part.start() for part in parts[1:]] + [len(output)]
    for match, end in zip(
        parts, ends, strict=False
    ):  # output without sections has an end all the same
        if match["title"] == wanted:
            return output[match.end() : end]
    return ""


def _message(text: str) -> str:
    """The line that says what went wrong, without addresses and places in the source."""
    lines = [match["text"].strip() for match in _ERROR_LINE.finditer(text)] or text.splitlines()
    named = [line for line in lines if _EXCEPTION.match(line) or line.startswith("assert ")]
    chosen = (named or lines or ["it fails"])[0]
    chosen = _PLACE.sub("", _ADDRESS.sub("0x…", chosen)).removeprefix("AssertionError: ").strip()
    return chosen if len(chosen) <= MESSAGE_LIMIT else chosen[: MESSAGE_LIMIT - 1] + "…"
