"""Decides whether a patch solves a task: hidden tests, run where the agent cannot reach.

A grading applies the agent's filtered diff to the base on the host (bytes in, bytes out, no git), puts
the tree, the hidden tests and canaries into a fresh sandbox, and runs pytest hardened.
:func:`plan_grading` and :func:`judge` are pure; :class:`Grader` only carries a tree in and a report out.
docs/grading.md states what is held off and what is not.

Rejected: the exit status alone, text on standard output and JUnit files, all of which code under test
can forge.
"""

from __future__ import annotations

import functools
import hashlib
import random
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

from agentic_gym.envs.swe.canaries import Canaries, fresh_name, make_canaries
from agentic_gym.envs.swe.patches import apply_patch, filter_patch, parse_patch, refuse_clashes
from agentic_gym.envs.swe.protection import is_test_name, protection
from agentic_gym.envs.swe.recent import Recent
from agentic_gym.envs.swe.task import SWETask
from agentic_gym.errors import ConfigError, GraderError, PatchError, SandboxError
from agentic_gym.sandbox.base import Sandbox, SandboxBackend, SandboxSpec, TestReport
from agentic_gym.types import Outcome

MAX_PATCH_BYTES = 5_000_000
"""A larger patch is refused: no repair by hand is, and applying it would cost minutes."""

_NO_EXTRAS = ("-p", "no:unraisableexception", "-p", "no:threadexception")  # collect garbage twice
_PYTEST_ARGS = ("-q", "--tb=no", "--no-summary", *_NO_EXTRAS)  # nobody reads the text
_SHOWING_ARGS = ("-q", "--tb=short", *_NO_EXTRAS)
_TESTS_FAILED = 1
"""pytest's exit status when tests failed: the canaries do, so every honest run ends with it."""


@dataclass(frozen=True, slots=True)
class Grade:
    """The verdict on one patch.

    Attributes:
        outcome: ``SOLVED``, ``FAILED`` or ``SUSPECTED_HACK``.
        reason: one line for people.
        fail_to_pass: outcome of each expected test; "missing" if it was not reported, "not run" if the
            patch does not apply.
        pass_to_pass: the same for the tests that must still pass.
        tampered: files of the base's tests, of pytest's configuration and the like that the patch
            touches; those changes were dropped before grading.
        dropped: all paths whose changes were dropped: also new test files, binary files and links.
        collected: whether a test reported a result, and no test file failed to be collected.
        duration_s: wall time.
    """

    outcome: Outcome
    reason: str
    fail_to_pass: Mapping[str, str] = field(default_factory=dict)
    pass_to_pass: Mapping[str, str] = field(default_factory=dict)
    tampered: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    collected: bool = False
    duration_s: float = 0.0

    @property
    def solved(self) -> bool:
        """Whether the hidden tests say that the task is solved."""
        return self.outcome is Outcome.SOLVED


@dataclass(frozen=True, slots=True)
class GradingPlan:
    """What one grading runs.

    Attributes:
        files: the tree to put into the sandbox: patched base, hidden tests, canaries.
        run: test files in the order in which they run; canaries come first and last.
        canaries: tests that must fail.
        aliases: name of a hidden test file in this grading to its own name.
        empty: whether nothing of the patch was left to apply.
        tampered: as in :class:`Grade`.
        dropped: as in :class:`Grade`.
    """

    files: Mapping[str, bytes]
    run: tuple[str, ...]
    canaries: tuple[Canaries, ...]
    aliases: Mapping[str, str]
    empty: bool
    tampered: tuple[str, ...]
    dropped: tuple[str, ...]


def patched_tree(
    task: SWETask, patch: bytes | str | None
) -> tuple[dict[str, bytes], bool, tuple[str, ...], tuple[str, ...]]:
    """The base with what may be kept of a patch. Pure.

    Returns:
        The tree, whether it is the base, and the paths whose changes were refused (tests, and what steers
        them) or are of a kind that is not supported (binary files, links).

    Raises:
        PatchError: the patch is too large, cannot be parsed or applied, or puts a file where a folder is.
    """
    if patch is not None and len(patch) > MAX_PATCH_BYTES:
        raise PatchError(f"the patch has {len(patch)} bytes; at most {MAX_PATCH_BYTES} are graded")
    kept, refused, unsupported = filter_patch(parse_patch(patch), protection(task))
    files = apply_patch(task.base_files, kept)
    refuse_clashes(files)
    return files, not kept, refused, unsupported


def plan_grading(task: SWETask, patch: bytes | str | None, rng: random.Random) -> GradingPlan:
    """Filters and applies a patch and adds hidden tests and canaries. Pure but for ``rng``.

    Raises:
        PatchError: see :func:`patched_tree`; or it puts a file where the tests need a folder.
    """
    files, empty, refused, unsupported = patched_tree(task, patch)
    expected = [*task.fail_to_pass, *task.pass_to_pass]
    wanted = dict.fromkeys(node_id.split("::", 1)[0] for node_id in expected)
    canaries = make_canaries(_test_sources(task), rng)
    names = _aliases(task, wanted, rng)
    hidden = {names.get(path, path): text for path, text in task.hidden_tests.items()}
    for added in (hidden, *(one.files for one in canaries)):
        files |= {path: text.encode("utf-8", "surrogateescape") for path, text in added.items()}
    refuse_clashes(files)
    before, after = ([*one.files] for one in canaries)
    run = (*before, *(names.get(path, path) for path in wanted), *after)
    aliases = {alias: path for path, alias in names.items()}
    tampered = tuple(
        path for path in refused if path in task.files or not is_test_name(PurePosixPath(path).name)
    )
    dropped = (*refused, *unsupported)
    return GradingPlan(files, run, canaries, aliases, empty, tampered, dropped)


def judge(task: SWETask, plan: GradingPlan, report: TestReport) -> Grade:
    """The verdict from what the runner reported. Pure.

    Solved means: every expected test passed, each once; every canary failed; pytest ended by itself with
    the status that fits. Results that cannot come from an honest run make a ``SUSPECTED_HACK``.
    """
    outcomes = {_own_id(node_id, plan): status for node_id, status in report.outcomes.items()}
    fail_to_pass = {node_id: _status(node_id, outcomes) for node_id in task.fail_to_pass}
    pass_to_pass = {node_id: _status(node_id, outcomes) for node_id in task.pass_to_pass}
    grade = Grade(
        Outcome.FAILED,
        "",
        fail_to_pass,
        pass_to_pass,
        tampered=plan.tampered,
        dropped=plan.dropped,
        collected=bool(report.outcomes) and not report.collection_errors,
        duration_s=report.duration_s,
    )
    expected = {**fail_to_pass, **pass_to_pass}
    unsolved = [node_id for node_id, status in expected.items() if status != "passed"]
    forged = _forgery(plan, report, all_passed=not unsolved)
    if forged:
        return replace(grade, outcome=Outcome.SUSPECTED_HACK, reason=forged)
    if plan.empty:
        reason = (
            "the patch changes only protected or binary files" if plan.dropped else "empty patch"
        )
        return replace(grade, reason=reason)
    if report.timed_out:
        return replace(grade, reason=f"the tests ran longer than {task.grade_timeout_s:g} s")
    if unsolved:
        shown = ", ".join(f"{node_id} {expected[node_id]}" for node_id in unsolved[:3])
        return replace(grade, reason=f"{len(unsolved)} of {len(expected)} tests: {shown}")
    if report.exit_code != _TESTS_FAILED:
        return replace(grade, reason=f"pytest ended with status {report.exit_code}")
    return replace(grade, outcome=Outcome.SOLVED, reason=f"all {len(expected)} tests pass")


def _forgery(plan: GradingPlan, report: TestReport, *, all_passed: bool) -> str | None:
    """What in a report no honest run shows, or None."""
    asked = set(plan.run)
    canary_ids = [node_id for one in plan.canaries for node_id in one.ids]
    lively = [node_id for node_id in canary_ids if report.outcomes.get(node_id) == "passed"]
    if lively:
        return f"{len(lively)} of {len(canary_ids)} tests that must fail were reported as passed"
    if report.duplicates:
        return f"results reported more than once: {', '.join(report.duplicates[:3])}"
    unknown = [node_id for node_id in report.outcomes if node_id.split("::", 1)[0] not in asked]
    if unknown:
        return f"results of tests that were not run: {', '.join(unknown[:3])}"
    if report.exit_code == 0:
        return "pytest ended with status 0 although tests that must fail were run"
    silent = [node_id for node_id in canary_ids if report.outcomes.get(node_id) != "failed"]
    if all_passed and silent and not report.timed_out:
        return f"{len(silent)} of {len(canary_ids)} tests that must fail did not"
    return None


def _status(node_id: str, outcomes: Mapping[str, str]) -> str:
    """Outcome of an expected test. Some task sets cut parametrised ids at the first blank:
    such an id passes only if everything that it may stand for does.
    """
    if node_id in outcomes:
        return outcomes[node_id]
    if "[" in node_id and not node_id.endswith("]"):
        found = [status for name, status in outcomes.items() if name.startswith(node_id + " ")]
        if found:
            return next((status for status in found if status != "passed"), "passed")
    return "missing"


def _aliases(task: SWETask, wanted: Iterable[str], rng: random.Random) -> dict[str, str]:
    """Fresh names for hidden test files, so that code cannot look for them by name.

    A file that another one mentions keeps its name: it may be imported.
    """
    texts = {**task.files, **task.hidden_tests}
    names: dict[str, str] = {}
    for path in wanted:
        stem = PurePosixPath(path).stem
        others = (text for other, text in texts.items() if other != path)
        if path in task.hidden_tests and not any(stem in text for text in others):
            names[path] = fresh_name(path, rng, {*texts, *names.values()})
    return names


def _own_id(node_id: str, plan: GradingPlan) -> str:
    path, separator, rest = node_id.partition("::")
    return plan.aliases.get(path, path) + separator + rest


def _test_sources(task: SWETask) -> dict[str, str]:
    """The test files that decide, hidden ones first choice."""
    if task.hidden_tests:
        return {path: text for path, text in task.hidden_tests.items() if path.endswith(".py")}
    return {path: task.files[path] for path in task.visible_tests}


_LEAST_TIMEOUT_S, _ANCHOR_FACTOR = 2.0, 1.5


class Grader:
    """Grades patches in sandboxes of its own. Safe to share between threads.

    Args:
        backend: makes the sandboxes.
        size: how many gradings may run at once; a sandbox is made when first needed and kept.
        cache_size: how many verdicts (and reports) are kept for equal (task, patch) pairs; 0 runs each time.
        rng: source of canaries; unpredictable by default.
        adaptive_timeout: once a task was solved, give later gradings of it 1.5 times the longest that a right
            patch took, at least 2 s and never more than the task allows (RollPacker, NSDI'26, section 5): a
            patch that hangs then holds nothing up. A right patch that is much slower than all before fails.

    Raises:
        ConfigError: ``size`` is not positive, or ``cache_size`` negative.
    """

    def __init__(
        self,
        backend: SandboxBackend,
        *,
        size: int = 1,
        cache_size: int = 0,
        rng: random.Random | None = None,
        adaptive_timeout: bool = False,
    ) -> None:
        if size < 1 or cache_size < 0:
            raise ConfigError(
                f"size={size} must be at least 1 and cache_size={cache_size} at least 0"
            )
        self._backend = backend
        self._size = size
        self._slots = threading.BoundedSemaphore(size)
        self._lock = threading.Lock()
        self._idle: list[Sandbox] = []
        self._closed = False
        self._cache_size = cache_size
        self._grades = Recent[Grade](cache_size)
        self._reports = Recent[TestReport](cache_size)
        self._rng = rng or random.SystemRandom()
        self._adaptive = adaptive_timeout
        self._anchors: dict[str, float] = {}  # seconds of the longest right grading, by task

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy (gymnasium makes some, and so does each worker process) has its own sandboxes."""
        again = functools.partial(
            type(self),
            size=self._size,
            cache_size=self._cache_size,
            adaptive_timeout=self._adaptive,
        )
        return again, (self._backend,)

    def grade(self, task: SWETask, patch: bytes | str | None) -> Grade:
        """Grades one patch; an empty one (``None``, ``""``, white space) is a failure like any other.

        Raises:
            GraderError: the machinery broke, twice. The sample is then neither solved nor failed.
        """
        begin = time.monotonic()
        try:
            plan = plan_grading(task, patch, self._rng)
        except PatchError as error:
            not_run = dict.fromkeys(task.fail_to_pass, "not run")
            still = dict.fromkeys(task.pass_to_pass, "not run")
            return Grade(Outcome.FAILED, f"the patch does not apply: {error}", not_run, still)
        key = _cache_key(task, patch) if self._cache_size else b""
        if known := self._grades.get(key):
            return known
        limited = task.model_copy(update={"grade_timeout_s": self.timeout_s(task)})
        report = self._run(limited, plan.files, [*_PYTEST_ARGS, *plan.run])
        grade = replace(judge(limited, plan, report), duration_s=time.monotonic() - begin)
        if grade.solved:
            with self._lock:
                longest = max(self._anchors.get(task.task_id, 0.0), report.duration_s)
                self._anchors[task.task_id] = longest
        # One that ran out of time may be right: a slow machine must not fail it for good.
        if not report.timed_out:
            self._grades.put(key, grade)
        return grade

    def show(self, task: SWETask, patch: bytes | str | None, *, timeout_s: float) -> TestReport:
        """Runs the visible tests, as the base has them, with tracebacks: for facts, not for a verdict.

        Raises:
            GraderError: see :meth:`grade`.
            PatchError: see :func:`patched_tree`.
        """
        key = _cache_key(task, patch) if self._cache_size else b""
        if known := self._reports.get(key):
            return known
        limited = task.model_copy(update={"grade_timeout_s": timeout_s})
        args = [*_SHOWING_ARGS, *task.visible_tests]
        report = self._run(limited, patched_tree(task, patch)[0], args)
        if report.exit_code is not None:
            self._reports.put(key, report)
        return report

    def timeout_s(self, task: SWETask) -> float:
        """Budget of the next grading run of a task."""
        with self._lock:
            anchor = self._anchors.get(task.task_id)
        if anchor is None or not self._adaptive:
            return task.grade_timeout_s
        return min(max(_LEAST_TIMEOUT_S, _ANCHOR_FACTOR * anchor), task.grade_timeout_s)

    def close(self) -> None:
        """Ends the sandboxes; idempotent."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for sandbox in idle:
            sandbox.close()

    def _run(self, task: SWETask, files: Mapping[str, bytes], args: Sequence[str]) -> TestReport:
        for attempt in (1, 2):
            try:
                with self._sandbox() as sandbox:
                    sandbox.reset(files)
                    timeout_s = task.grade_timeout_s
                    return sandbox.run_pytest(args, timeout_s=timeout_s, hardened=True)
            except (SandboxError, OSError) as error:
                if attempt == 2:
                    message = f"{task.task_id}: grading broke twice: {error}"
                    raise GraderError(message) from error
        raise AssertionError("unreachable")

    @contextmanager
    def _sandbox(self) -> Iterator[Sandbox]:
        """A sandbox for one grading; one in which anything went wrong is not used again."""
        with self._slots:
            with self._lock:
                if self._closed:
                    raise GraderError("the grader is closed")
                sandbox = self._idle.pop() if self._idle else None
            if sandbox is None or not sandbox.alive():
                sandbox = self._backend.start(SandboxSpec())
            try:
                yield sandbox
            except BaseException:
                sandbox.close()
                raise
            with self._lock:
                keep = not self._closed
                if keep:
                    self._idle.append(sandbox)
            if not keep:
                sandbox.close()


def _cache_key(task: SWETask, patch: bytes | str | None) -> bytes:
    raw = patch.encode("utf-8", "surrogateescape") if isinstance(patch, str) else patch or b""
    digest = hashlib.sha256(task.model_dump_json().encode())
    digest.update(b"\0" + raw)
    return digest.digest()
