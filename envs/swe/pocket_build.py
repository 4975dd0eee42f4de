"""Builds ``pocket``: injects bugs, runs the tests on each in a sandbox, and deals out the splits.

Every outcome in a task comes from a run. Each bug is run in two sandboxes, whose interpreters hash text
differently, and dropped if they disagree, so that no task depends on the order of a set.
"""

from __future__ import annotations

import difflib
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

from agentic_gym.envs.swe.injection.inject import Mutation, mutate_all
from agentic_gym.envs.swe.injection.selection import (
    Balance,
    held_out_modules,
    split_lines,
    stable_hash,
)
from agentic_gym.envs.swe.injection.symptoms import Symptom, problem_statement, symptom
from agentic_gym.envs.swe.pocket import PocketModule, line_repair, pocket_modules
from agentic_gym.envs.swe.task import SWETask
from agentic_gym.errors import SandboxError, TaskError
from agentic_gym.sandbox.base import Sandbox, SandboxBackend, SandboxSpec, TestReport
from agentic_gym.suggest import nearest_or_all

TASKS_PER_MODULE = 16
HELD_OUT_MODULES = 10
SHARES = {"heldout_bugs": 0.2, "dev": 0.08}
"""Share of a module's bugs, by whole lines; the rest is "train"."""
CPU_LIMIT_S = 1.5
"""Processor time after which a run counts as hanging; a right module takes about a tenth of a second."""
WALL_LIMIT_S = 60.0
GRADE_TIMEOUT_S = 10.0
HANG_SHARE = 0.5
"""Share of the modules that may have one bug that hangs; each run of such a task costs the time limit."""
_ATTEMPTS = 3
_UNSTABLE = "MemoryError"
_HANGS = "[processor time is up]"
# By processor time, because on a busy machine wall time would take slow runs for hanging ones.
_CONFTEST = f"""
import os, resource, signal

def end(number, frame):
    os.write(1, b"\\n{_HANGS}\\n")
    os._exit(1)

signal.signal(signal.SIGPROF, end)
signal.setitimer(signal.ITIMER_PROF, {CPU_LIMIT_S})
resource.setrlimit(resource.RLIMIT_CPU, (4, 4))  # a loop in C does not come to the handler
""".encode()

Run = Callable[[Mapping[str, bytes], Sequence[str]], Iterator[TestReport]]
"""Runs test files on a tree; gives the reports of independent runs, each made when it is asked for."""


class SandboxRuns:
    """A :data:`Run` in sandboxes that are kept for the next run. One thread at a time.

    Args:
        backend: makes the sandboxes.
        count: how many independent runs each call makes.
    """

    def __init__(self, backend: SandboxBackend, *, count: int = 2) -> None:
        self._backend = backend
        self._sandboxes: list[Sandbox | None] = [None] * count

    def __call__(self, files: Mapping[str, bytes], tests: Sequence[str]) -> Iterator[TestReport]:
        """Runs pytest on ``tests`` in each sandbox; ``timed_out`` is by processor time."""
        return (self._run(i, files, tests) for i in range(len(self._sandboxes)))

    def close(self) -> None:
        """Ends the sandboxes; idempotent."""
        for sandbox in self._sandboxes:
            if sandbox is not None:
                sandbox.close()
        self._sandboxes = [None] * len(self._sandboxes)

    def _run(self, i: int, files: Mapping[str, bytes], tests: Sequence[str]) -> TestReport:
        sandbox = self._sandboxes[i] or self._backend.start(SandboxSpec())
        self._sandboxes[i] = None  # until it has shown that it survived
        try:
            sandbox.reset({**files, "conftest.py": _CONFTEST})
            report = sandbox.run_pytest(["-qs", "--tb=short", *tests], timeout_s=WALL_LIMIT_S)
        except SandboxError:
            sandbox.close()
            return TestReport({}, None, "the sandbox died")
        self._sandboxes[i] = sandbox
        hangs = _HANGS in report.output
        if report.timed_out and not hangs:
            return TestReport({}, None, "the machine was too busy")
        return replace(report, timed_out=hangs)


@dataclass(frozen=True, slots=True)
class Observation:
    """What the tests of a module do on one source.

    Attributes:
        passed: node ids that passed, in order of the run.
        symptom: first failure among the visible tests, None if they pass.
        hangs: the limit of processor time ended the run.
    """

    passed: tuple[str, ...]
    symptom: Symptom | None
    hangs: bool


def build(
    backend: SandboxBackend,
    modules: Sequence[PocketModule],
    *,
    workers: int = 2,
    progress: Callable[[str, int], None] = lambda name, tasks: None,
) -> list[SWETask]:
    """Builds the tasks of some modules of ``pocket``, as they are in the whole set.

    Args:
        backend: makes the sandboxes, two a worker.
        modules: what to build, as :func:`choose_modules` gives it.
        workers: modules that are built at once; the result does not depend on it.
        progress: called with a module's name and its number of tasks when it is done.

    Raises:
        TaskError: a right module fails its own tests.
    """
    local = threading.local()
    with ExitStack() as stack, ThreadPoolExecutor(max(1, workers)) as pool:

        def one(module: PocketModule) -> list[SWETask]:
            if not hasattr(local, "runs"):
                local.runs = SandboxRuns(backend)
                stack.callback(local.runs.close)
            tasks = build_module(module, local.runs)
            progress(module.name, len(tasks))
            return tasks

        built = [task for tasks in pool.map(one, modules) for task in tasks]
    known = [module.name for module in pocket_modules()]
    return assign_splits(built, held_out_modules(known, HELD_OUT_MODULES))


def choose_modules(names: Collection[str]) -> list[PocketModule]:
    """The modules of ``pocket`` with these names, sorted; all if none is given.

    Raises:
        TaskError: a name is no module.
    """
    modules = {module.name: module for module in pocket_modules()}
    for name in names:
        if name not in modules:
            raise TaskError(f"pocket has no module {name!r}.{nearest_or_all(name, list(modules))}")
    return [module for name, module in modules.items() if not names or name in names]


def build_module(module: PocketModule, run: Run) -> list[SWETask]:
    """The tasks of one module, all in split "train"; :func:`assign_splits` deals them out.

    Raises:
        TaskError: the right module does not pass its own tests.
    """
    base = observe(module, module.source, run)
    if base is None or base.symptom is not None or not base.passed:
        raise TaskError(f"pocket module {module.name!r} does not pass its own tests: {base}")
    visible = {node for node in base.passed if node.startswith("test_")}
    hangs_left = int(stable_hash("hang", module.name) % 1000 < 1000 * HANG_SHARE)
    balance = Balance(module.name, mutate_all(module.source))
    tasks: list[SWETask] = []
    while len(tasks) < TASKS_PER_MODULE and (mutation := balance.next()) is not None:
        seen = observe(module, mutation.source, run, may_hang=hangs_left > 0)
        if seen is None or seen.symptom is None or visible <= set(seen.passed):
            continue  # unstable, or nothing for the agent to see
        hangs_left -= seen.hangs
        balance.accept(mutation)
        tasks.append(_task(module, mutation, base.passed, seen, seen.symptom))
    return tasks


def observe(
    module: PocketModule, source: str, run: Run, *, may_hang: bool = True
) -> Observation | None:
    """Runs the visible and hidden tests on a source.

    Returns:
        None if the outcome is not stable, or if it hangs and may not.
    """
    visible, hidden = f"test_{module.name}.py", f"hidden_{module.name}.py"
    texts = {f"{module.name}.py": source, visible: module.visible, hidden: module.hidden}
    files = {path: text.encode() for path, text in texts.items()}
    for _ in range(_ATTEMPTS):
        reports: list[TestReport] = []
        for report in run(files, [visible, hidden]):
            if report.timed_out and not may_hang:
                return None
            reports.append(report)
        # The machine can end a run once; a bug does so each time.
        if all(report.timed_out or report.exit_code is not None for report in reports):
            seen = {_observation(report, visible) for report in reports}
            return seen.pop() if len(seen) == 1 else None
    return None


def _observation(report: TestReport, visible: str) -> Observation | None:
    if report.duplicates or _UNSTABLE in report.output:
        return None
    passed = tuple(node for node, outcome in report.outcomes.items() if outcome == "passed")
    return Observation(passed, symptom(report, visible), report.timed_out)


def _task(
    module: PocketModule,
    mutation: Mutation,
    all_ids: Sequence[str],
    seen: Observation,
    found: Symptom,
) -> SWETask:
    digest = stable_hash(module.name, mutation.source) % 16**6
    path, test = f"{module.name}.py", f"test_{module.name}.py"
    passing = set(seen.passed)
    return SWETask(
        task_id=f"pocket-{module.name}-{mutation.operator}-{digest:06x}",
        repo=module.name,
        files={path: mutation.source, test: module.visible},
        problem_statement=problem_statement(module.name, found),
        test_command=f"python -m pytest -q {test}",
        visible_tests=[test],
        hidden_tests={f"hidden_{module.name}.py": module.hidden},
        fail_to_pass=[node for node in all_ids if node not in passing],
        pass_to_pass=[node for node in all_ids if node in passing],
        gold_patch=unified_diff(path, mutation.source, module.source),
        error_class=found.error_class,
        operator=mutation.operator,
        grade_timeout_s=GRADE_TIMEOUT_S,
    )


def unified_diff(path: str, before: str, after: str) -> str:
    """A git-style diff of one text file."""
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), f"a/{path}", f"b/{path}"
    )
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )


def assign_splits(tasks: Iterable[SWETask], unseen: frozenset[str]) -> list[SWETask]:
    """Deals the tasks out: the modules in ``unseen`` whole, then whole lines of the other modules."""
    by_module: dict[str, list[SWETask]] = {}
    for task in tasks:
        by_module.setdefault(task.repo, []).append(task)
    done: list[SWETask] = []
    for name, group in by_module.items():
        right = {task.task_id: line_repair(task).after.strip() for task in group}
        split = split_lines(name, Counter(right.values()), SHARES)
        if name in unseen:
            split = dict.fromkeys(split, "heldout_modules")
        done += [task.model_copy(update={"split": split[right[task.task_id]]}) for task in group]
    return done


def card(tasks: Sequence[SWETask]) -> dict[str, Any]:
    """Counts of a task set, for the file beside it."""

    def count(values: Iterator[str]) -> dict[str, int]:
        return dict(sorted(Counter(values).items()))

    return {
        "tasks": len(tasks),
        "modules": len({task.repo for task in tasks}),
        "splits": count(task.split for task in tasks),
        "error_classes": count(task.error_class for task in tasks),
        "operators": count(task.operator or "none" for task in tasks),
        "heldout_modules": sorted({t.repo for t in tasks if t.split == "heldout_modules"}),
    }
