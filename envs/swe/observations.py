"""What an agent reads: numbered files and test summaries, long or compact. Pure.

The compact form is for small models, which pay for every token: a file with line numbers, a count, and the
first failure in one line.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from agentic_gym.env import clip_text
from agentic_gym.envs.swe.editing import number_lines
from agentic_gym.envs.swe.injection.symptoms import symptom
from agentic_gym.envs.swe.task import SWETask
from agentic_gym.errors import ToolCallError
from agentic_gym.sandbox.base import ExecResult, TestReport


def passed_fraction(report: TestReport) -> float:
    """Fraction of the tests that pass; 0 where a file could not be collected or the run did not end.

    Skipped tests count neither way.
    """
    counted = [status for status in report.outcomes.values() if status != "skipped"]
    if not counted or report.collection_errors or report.timed_out or report.exit_code is None:
        return 0.0
    return counted.count("passed") / len(counted)


def count_tests(report: TestReport) -> dict[str, int]:
    """``tests_passed`` and ``tests_total`` of a run, for ``info``; skipped ones do not count."""
    statuses = list(report.outcomes.values())
    counted = len(statuses) - statuses.count("skipped") + len(report.collection_errors)
    # A run that hung or died has not passed, whatever it reported before.
    total = max(counted, 1) + int(report.exit_code is None)
    return {"tests_passed": statuses.count("passed"), "tests_total": total}


def summarise_tests(report: TestReport, *, limit: int, compact: bool = False) -> str:
    """The result of a test run.

    Args:
        report: of the run.
        limit: characters of pytest's own text that are kept.
        compact: give the first failure in one line and no traceback.
    """
    counts = Counter(report.outcomes.values())
    words = [
        f"{counts[word]} {word}"
        for word in ("passed", "failed", "error", "skipped")
        if counts[word]
    ]
    if report.timed_out:
        words.append("timed out")
    if report.exit_code is None and not report.timed_out:
        words.append("the test process died")
    lines = [", ".join(words)] if words else []
    found = next(filter(None, (symptom(report, path) for path in _test_files(report))), None)
    sections = "" if compact else _failure_sections(report.output)
    if sections and not report.collection_errors:
        lines.append(clip_text(sections, limit))
    elif found is not None and found.message:
        name = found.test or next(iter(report.collection_errors), "")
        lines.append(f"{name}: {found.message}")
    return "\n".join(lines) or "no tests ran"


def describe_exec(result: ExecResult, *, limit: int) -> str:
    """Output of a command, then how it ended where it did not end well."""
    text = clip_text(result.output.rstrip("\n"), limit)
    if result.timed_out:
        note = f"[timed out after {result.duration_s:.0f} s; its processes were ended]"
    elif result.oom:
        note = "[ended: out of memory]"
    elif result.rc:
        note = f"[exit code {result.rc}]"
    else:
        note = "" if text else "(no output)"
    return "\n".join(part for part in (text, note) if part)


def first_observation(
    task: SWETask, report: TestReport, *, limit: int, show_file: bool, compact: bool
) -> str:
    """What the agent is told at the beginning of an episode.

    The long form is the problem, the files, and the command of the visible tests; ``show_file`` adds the
    source files as far as ``limit`` goes. The compact form is the source files and the test summary, and
    the problem only where no visible test shows it.
    """
    sources = source_files(task)
    told = compact and passed_fraction(report) < 1
    parts = [] if told else [task.problem_statement]
    if not compact:
        parts.append("Files:\n" + "\n".join(task.files))
        parts.append(f"Visible tests: {task.test_command}")
    room = limit
    for path, content in sources.items() if show_file or compact else ():
        text = f"{path}\n{_numbered(content)}"
        room -= len(text)
        if room < 0:
            break
        parts.append(text)
    if compact or show_file:
        parts.append(summarise_tests(report, limit=limit, compact=compact))
    return "\n\n".join(parts)


def source_files(task: SWETask) -> Mapping[str, bytes]:
    """The Python files of the base tree that are not tests."""
    tests = {*task.visible_tests, *task.hidden_tests}
    return {
        path: content
        for path, content in task.base_files.items()
        if path.endswith(".py") and path not in tests
    }


def _numbered(content: bytes) -> str:
    try:
        return number_lines(content)
    except ToolCallError as error:
        return f"({error})"


def _test_files(report: TestReport) -> list[str]:
    """Files of a report, those that could not be collected first."""
    ran = (node_id.split("::", 1)[0] for node_id in report.outcomes)
    return list(dict.fromkeys([*report.collection_errors, *ran]))


def _failure_sections(output: str) -> str:
    """Pytest's failures without its summary, which holds timings: equal runs must read the same."""
    found = re.search(r"^=+ FAILURES =+\n(.*?)(?:^=+ |\Z)", output, re.DOTALL | re.MULTILINE)
    return found[1].strip() if found else ""
