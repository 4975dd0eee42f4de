"""What each turn made of the repository: facts for potentials, and names of states. No agent sees them.

Facts come from the agent's diff alone, with its changes of tests and of what steers them dropped, in
sandboxes that it has never been in. Shares of the expected tests are those of the
:class:`~agentic_gym.envs.swe.grading.Grader`, whose canaries see through forged results; the error is that of
a run of the base's visible tests. Nothing that the agent says, and nothing that its own test runs printed,
counts. What is suspected to be an attack on the grader is the worst state there is.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentic_gym.envs.swe.grading import Grade, Grader, patched_tree
from agentic_gym.envs.swe.injection.symptoms import symptom
from agentic_gym.envs.swe.protection import protection
from agentic_gym.envs.swe.recent import Recent
from agentic_gym.envs.swe.task import SWETask
from agentic_gym.errors import PatchError
from agentic_gym.rewards.credit.process import RepositoryState
from agentic_gym.sandbox.base import Sandbox, TestReport
from agentic_gym.types import Outcome, ToolResult

_READS_ONLY = frozenset({"view", "search", "submit"})
"""Tools after which the workspace is what it was."""

_MAX_SOURCE_BYTES = 500_000
"""A longer file counts as one that does not compile: compiling what an agent wrote must not take minutes."""

_SOURCE_NAME = "<repository>"
_WORST = RepositoryState(0.0, 0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class _Base:
    """The base of a task.

    Attributes:
        state: of it.
        place: where its error shows: "" for a run that does not end, a test file that cannot be collected,
            or a test; None if the visible tests show nothing.
        stage: how far the tests get there; see :func:`stage`.
    """

    state: RepositoryState
    place: str | None
    stage: int


_base_reports = Recent[TestReport](4_096)
"""Visible tests on base trees: the same for every episode of a task, in every environment of a backend."""

_bases = Recent[_Base](4_096)
_compiled = Recent[bool](16_384)


def base_report(sandbox: Sandbox, task: SWETask, *, backend: str, timeout_s: float) -> TestReport:
    """The visible tests on the base tree, run in a sandbox that holds it unless they were before.

    Args:
        sandbox: with the base tree.
        task: whose tests.
        backend: its name.
        timeout_s: budget of the run.
    """
    key = _key(backend, timeout_s, task)
    report = _base_reports.get(key)
    if report is None:
        report = sandbox.run_pytest(task.visible_tests, timeout_s=timeout_s)
        if report.exit_code is not None or task.error_class == "timeout":  # else by chance
            _base_reports.put(key, report)
    return report


class ProcessFacts:
    """The facts of one environment's episodes, turn by turn.

    Args:
        grader: gives the grader that the environment has when it is first needed, or None to name states and
            measure nothing.
        backend: name of what makes the sandboxes.
        timeout_s: budget of a run of the visible tests.
    """

    def __init__(
        self, grader: Callable[[], Grader] | None, *, backend: str, timeout_s: float
    ) -> None:
        self._grader = grader
        self._backend = backend
        self._timeout_s = timeout_s
        self._task: SWETask | None = None
        self._patch = b""
        self._first: dict[str, Any] = {}
        self._state: dict[str, float] = {}
        self._base = _Base(_WORST, None, 0)

    def begin(self, task: SWETask, shown: str) -> dict[str, Any]:
        """Facts of the base tree.

        Args:
            task: of the episode.
            shown: what the visible tests say, in short.

        Raises:
            GraderError: the machinery broke.
        """
        self._task, self._patch, self._first = task, b"", {}
        if self._grader is not None:
            self._base = self._measure_base(task, self._grader())
            self._state = dataclasses.asdict(self._base.state)
            self._first = {"base_state": self._state}
        return self._facts(shown)

    def after(
        self, results: Sequence[ToolResult], diff: Callable[[], bytes], shown: str
    ) -> dict[str, Any]:
        """Facts of the tree after a turn; ``base_state`` is among those of the first turn.

        Args:
            results: of the turn's calls.
            diff: gives the workspace against the base.
            shown: what the last run of visible tests said, in short.

        Raises:
            GraderError: the machinery broke.
            SandboxError: the workspace cannot be read.
        """
        if any(not result.is_error and result.name not in _READS_ONLY for result in results):
            patch = diff()
            if patch != self._patch and self._grader is not None and self._task is not None:
                self._state = dataclasses.asdict(self._measure(self._task, patch, self._grader()))
            self._patch = patch
        first, self._first = self._first, {}
        return first | self._facts(shown)

    def _facts(self, shown: str) -> dict[str, Any]:
        named = hashlib.sha256(self._patch + b"\0" + shown.encode("utf-8", "surrogatepass"))
        facts: dict[str, Any] = {"state_key": named.hexdigest()[:16]}
        return facts if self._grader is None else facts | {"state": dict(self._state)}

    def _measure_base(self, task: SWETask, grader: Grader) -> _Base:
        key = _key(self._backend, self._timeout_s, task)
        if (known := _bases.get(key)) is not None:
            return known
        grade = grader.grade(task, b"")
        state = repository_state(task, task.base_files, grade, error_gone=False)
        if not task.visible_tests:
            return _Base(state, None, 0)
        report = grader.show(task, b"", timeout_s=self._timeout_s)
        place = error_place(report)
        base = _Base(state, place, 0 if place is None else stage(report, place))
        # Results that are missing though everything was collected: time ran out, perhaps by chance.
        cut = grade.collected and "missing" in {**grade.fail_to_pass, **grade.pass_to_pass}.values()
        if task.error_class == "timeout" or (report.exit_code is not None and not cut):
            _bases.put(key, base)
        return base

    def _measure(self, task: SWETask, patch: bytes, grader: Grader) -> RepositoryState:
        try:
            files = patched_tree(task, patch)[0]
        except PatchError:
            return _WORST
        grade = grader.grade(task, patch)
        if grade.outcome is Outcome.SUSPECTED_HACK:
            return _WORST
        gone = self._base.place is not None
        if gone and not grade.solved:
            report = grader.show(task, patch, timeout_s=self._timeout_s)
            gone = stage(report, self._base.place or "") > self._base.stage
        return repository_state(task, files, grade, error_gone=gone)


def repository_state(
    task: SWETask, files: Mapping[str, bytes], grade: Grade, *, error_gone: bool
) -> RepositoryState:
    """The state of a tree. Pure.

    Args:
        task: of the tree.
        files: the tree, without the changes that may not count.
        grade: of it.
        error_gone: see :func:`stage`.
    """
    return RepositoryState(
        parses=float(sources_compile(task, files)),
        imports=float(grade.collected),
        error_gone=float(error_gone),
        fail_to_pass=_share(grade.fail_to_pass),
        pass_to_pass=_share(grade.pass_to_pass),
    )


def sources_compile(task: SWETask, files: Mapping[str, bytes]) -> bool:
    """Whether Python accepts every source file that is no test.

    One that was removed counts as it was: removing what is broken repairs nothing.
    """
    tree = {**task.base_files, **files}
    protected = protection(task)
    return all(
        _compiles(content)
        for path, content in tree.items()
        if path.endswith(".py") and not protected(path)
    )


def error_place(report: TestReport) -> str | None:
    """Where a report shows its first error: "" for the run itself, a test file, a test; None if nowhere."""
    if report.timed_out or report.exit_code is None:
        return ""
    if report.collection_errors:
        return next(iter(report.collection_errors))
    failed = (node for node, status in report.outcomes.items() if status in ("failed", "error"))
    return next(failed, None)


def stage(report: TestReport, place: str) -> int:
    """How far the tests get at a place.

    0: it cannot be collected, or nothing was reported. 1: a test raises, or is skipped. 2: an assertion of it
    fails. 3: it passes. An error is gone where they get further than they did. The type of an exception alone
    would be gone as soon as the code raises another one, and a syntax error as soon as its file is.

    >>> report = TestReport({"t.py::a": "passed"}, 1, "")
    >>> stage(report, "t.py::a"), stage(report, "t.py"), stage(report, "t.py::b"), stage(report, "")
    (3, 1, 0, 3)
    """
    if not place:
        ended = report.exit_code is not None and not report.timed_out
        return 3 if ended and not report.collection_errors else 0
    path, _, test = place.partition("::")
    if path in report.collection_errors:
        return 0
    if not test:
        return int(any(node.partition("::")[0] == path for node in report.outcomes))
    status = report.outcomes.get(place)
    if status in ("failed", "error"):
        alone = dataclasses.replace(report, outcomes={place: status}, timed_out=False)
        found = symptom(alone, path)
        return 2 if found is not None and found.error_class == "logic" else 1
    return {"passed": 3, "skipped": 1}.get(status or "", 0)


def _share(outcomes: Mapping[str, str]) -> float:
    """Share of the tests that pass; 1 of none."""
    return list(outcomes.values()).count("passed") / len(outcomes) if outcomes else 1.0


def _compiles(content: bytes) -> bool:
    if len(content) > _MAX_SOURCE_BYTES:
        return False
    key = hashlib.sha256(content).digest()
    known = _compiled.get(key)
    if known is None:
        known = _compiles_anew(content)
        _compiled.put(key, known)
    return known


def _compiles_anew(content: bytes) -> bool:
    # What the compiler warns of is the agent's affair. Entering and leaving catch_warnings in many threads at
    # once can lose filters; this one names our sources only, so it may stay.
    warnings.filterwarnings("ignore", module=re.escape(_SOURCE_NAME))
    try:
        compile(content, _SOURCE_NAME, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError):
        return False
    return True


def _key(backend: str, timeout_s: float, task: SWETask) -> bytes:
    facts = f"{backend}\0{timeout_s}\0{task.model_dump_json()}"
    return hashlib.sha256(facts.encode()).digest()
