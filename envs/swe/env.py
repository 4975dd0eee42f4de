"""The software-engineering environment: a repository with something wrong, tools, and hidden tests.

One instance keeps one living sandbox and resets it between episodes. Files and commands are
:mod:`~agentic_gym.envs.swe.workspace`, text edits :mod:`~agentic_gym.envs.swe.editing`, what the agent
reads :mod:`~agentic_gym.envs.swe.observations`, the verdict :mod:`~agentic_gym.envs.swe.grading`; here
they are joined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from agentic_gym.env import ToolEnv, clip_text
from agentic_gym.envs.swe import editing
from agentic_gym.envs.swe.grading import Grade, Grader
from agentic_gym.envs.swe.observations import (
    count_tests,
    describe_exec,
    first_observation,
    passed_fraction,
    summarise_tests,
)
from agentic_gym.envs.swe.process import ProcessFacts, base_report
from agentic_gym.envs.swe.protection import guarded_files, steers_tests
from agentic_gym.envs.swe.settings import (
    choose_task,
    choose_tools,
    load,
    reward_weights,
    sandboxes_of,
)
from agentic_gym.envs.swe.task import SWETask
from agentic_gym.envs.swe.workspace import Workspace, plain, relative
from agentic_gym.errors import ConfigError, ResetNeeded, ToolCallError
from agentic_gym.rewards.outcome import (
    RewardConfig,
    outcome_reward,
    progress_reward,
    turn_reward,
)
from agentic_gym.sandbox.base import SandboxBackend, TestReport
from agentic_gym.tools import ToolSpec, tool
from agentic_gym.types import Outcome

_PYTEST_ARGS = ("-q", "--tb=short", "-p", "no:unraisableexception", "-p", "no:threadexception")
_CONTEXT_LINES = 2

LineNumber = Annotated[int, Field(ge=0)]


class SWEEnv(ToolEnv):
    """Repairs of repositories, graded by hidden tests.

    ``reset(options=...)`` takes ``task_id`` or ``task_index``; otherwise the seed draws a task. ``info``
    has ``task_id``, ``tests_passed`` and ``tests_total`` of the last visible run, ``edited`` (path and
    lines), ``state_key`` (names the state of the workspace and what its tests last showed), ``mishap`` (what
    ``reward.mishap`` is paid for: no_call, refused, broken_tests or None), and at the end ``grade``.

    Args:
        tasks: name of a bundled set, path of a JSONL file, or tasks.
        split: which split of it; None for all.
        max_source_chars: keep the tasks whose source files have at most so many characters.
        tools: names of the tools on offer; all by default.
        backend: what makes sandboxes: a backend, its name, or None for the best that works here.
        allow_unsafe: accept plain subprocesses where no sandbox works.
        grader: grades submissions; one that several environments share saves sandboxes. By default the
            environment has its own.
        sandboxes: share so many sandboxes, and a grader, with all environments of this process that have
            the same settings; needs tools without ``bash``. 0: one for each environment.
        cache_tests: with ``sandboxes``: test reports and verdicts that are kept by content, so that an
            edit that was tried before runs nothing. Only for deterministic tests.
        reward: weights of the reward, as a ``RewardConfig`` or by name.
        output_limit: characters of a tool's answer that are kept.
        test_timeout_s: budget of one run of the visible tests.
        show_file: begin with the source files and the state of the visible tests.
        compact: short observations for small models; implies ``show_file``.
        test_after_edit: run the visible tests after each edit and answer with their summary.
        adaptive_grading: shorten the budget of gradings of tasks that were solved before; see ``Grader``.
        process_state: measure the repository after each turn that changed it, as ``state`` in ``info``, which
            no agent sees; costs up to two runs of tests each. See :mod:`~agentic_gym.envs.swe.process`.

    Raises:
        ConfigError: a tool is unknown or a limit is not positive.
        TaskError: the tasks cannot be loaded.
        SandboxUnavailable: no backend works here.
    """

    def __init__(
        self,
        *,
        tasks: str | Path | Sequence[SWETask] = "pocket",
        split: str | None = "train",
        max_source_chars: int | None = None,
        tools: Sequence[str] | None = None,
        backend: SandboxBackend | str | None = None,
        allow_unsafe: bool = False,
        grader: Grader | None = None,
        sandboxes: int = 0,
        cache_tests: int = 0,
        reward: RewardConfig | Mapping[str, float] | None = None,
        output_limit: int = 4_000,
        test_timeout_s: float = 5.0,
        show_file: bool = False,
        compact: bool = False,
        test_after_edit: bool = False,
        adaptive_grading: bool = False,
        process_state: bool = False,
    ) -> None:
        self._adaptive_grading = adaptive_grading
        self._tools = choose_tools(tools, super().tool_specs)
        for name, value in (("output_limit", output_limit), ("test_timeout_s", test_timeout_s)):
            if value <= 0:
                raise ConfigError(f"{name}={value} must be positive")
        self._tasks = load(tasks, split, max_source_chars)
        self._index = {task.task_id: task for task in self._tasks}
        self._backend: SandboxBackend
        self._backend, self._shared_grader = sandboxes_of(
            self._tools,
            backend,
            grader,
            allow_unsafe=allow_unsafe,
            sandboxes=sandboxes,
            cache_tests=cache_tests,
            adaptive_grading=adaptive_grading,
        )
        self._workspace = Workspace(self._backend)
        self._own_grader: Grader | None = None
        self._weights = reward_weights(reward)
        self._output_limit = output_limit
        self._test_timeout_s = test_timeout_s
        self._show_file = show_file
        self._compact = compact
        self._test_after_edit = test_after_edit
        self._task: SWETask | None = None
        self._fraction = self._paid_fraction = 0.0
        self._verdict: Outcome | None = None
        self._collects = self._broke_tests = False
        self._shown = ""
        self._process = ProcessFacts(
            self._grader if process_state else None,
            backend=self._backend.name,
            timeout_s=test_timeout_s,
        )

    @property
    def tasks(self) -> Sequence[SWETask]:
        """The tasks that episodes are drawn from."""
        return self._tasks

    @property
    def task(self) -> SWETask:
        """The task of the running episode. Raises ``ResetNeeded`` before the first."""
        if self._task is None:
            raise ResetNeeded("there is no task yet: call reset()")
        return self._task

    @property
    def tool_specs(self) -> dict[str, ToolSpec]:
        """The tools on offer by name."""
        return {name: spec for name, spec in super().tool_specs.items() if name in self._tools}

    # The episode.

    def start(self, options: dict[str, Any]) -> str:
        """Puts a task's base tree into the sandbox and says what is wrong."""
        task = choose_task(options, self._tasks, self._index)
        if task is None:
            task = self._tasks[int(self.np_random.integers(len(self._tasks)))]
        self._task, self._verdict = task, None
        self._workspace.begin(task.base_files)
        timeout_s = self._test_timeout_s
        report = base_report(
            self._workspace.sandbox, task, backend=self._backend.name, timeout_s=timeout_s
        )
        self._fraction = self._paid_fraction = passed_fraction(report)
        self._collects, self._broke_tests = not report.collection_errors, False
        names = ("repo", "split", "error_class")
        self.step_info["task_id"] = task.task_id
        self.step_info["tags"] = {name: getattr(task, name) for name in names}
        self.step_info |= count_tests(report) | self._process.begin(task, self._summary(report))
        return first_observation(
            task,
            report,
            limit=self._output_limit,
            show_file=self._show_file,
            compact=self._compact,
        )

    def reward(self) -> float:
        """Cost of the turn and its mishaps, change of the test fraction, and in the last step the verdict."""
        mishap = self.step_info["mishap"] = self._mishap()
        reward = turn_reward(self._weights, mishap=mishap is not None)
        self._broke_tests = False
        reward += progress_reward(self._weights, self._paid_fraction, self._fraction)
        self._paid_fraction = self._fraction
        diff = self._workspace.sandbox.diff
        self.step_info |= self._process.after(self.step_results, diff, self._shown)
        return reward + outcome_reward(self._weights, self._verdict)

    def conclude_truncated(self, reason: str) -> tuple[float, Outcome]:
        """Grades what is in the workspace: a repair that was not submitted still counts."""
        grade = self._grade()
        outcome = Outcome.TRUNCATED if grade.outcome is Outcome.FAILED else grade.outcome
        return outcome_reward(self._weights, outcome), outcome

    def close(self) -> None:
        """Ends the sandboxes; idempotent."""
        self._workspace.close()
        if self._own_grader is not None:
            self._own_grader.close()
        self._own_grader = None

    # The tools.

    @tool
    def view(
        self, path: str, start: LineNumber | None = None, end: LineNumber | None = None
    ) -> str:
        """Shows a file with line numbers.

        Args:
            path: file of the repository.
            start: first line, from 1.
            end: last line.
        """
        return self._clip(editing.number_lines(self._workspace.read(path), start, end))

    @tool
    def search(self, pattern: str, path: str = ".") -> str:
        """Finds lines that match an extended regular expression.

        Args:
            pattern: the expression.
            path: file or folder to look in.
        """
        return self._clip(self._workspace.search(pattern, path)) or "no match"

    @tool
    def edit(self, path: str, old: str, new: str) -> str:
        """Replaces text that stands exactly once in a file.

        Args:
            path: file of the repository.
            old: the exact text; empty to make a new file.
            new: the text to put in its place.
        """
        if not old and not self._workspace.exists(path):
            content = editing.encode(new)
            return self._store(
                path, None, editing.Edit(content, 1, max(1, new.rstrip("\n").count("\n") + 1))
            )
        before = self._workspace.read(path)
        return self._store(path, before, editing.replace_text(before, old, new))

    @tool
    def edit_lines(
        self, path: str, start: LineNumber, text: str, end: LineNumber | None = None
    ) -> str:
        """Replaces whole lines of a file.

        Args:
            path: file of the repository.
            start: first line, from 1.
            text: the new lines, with or without their numbers as view shows them; empty to delete.
            end: last line; start if left out; start - 1 to insert before start.
        """
        before = self._workspace.read(path)
        last = start if end is None else end
        return self._store(
            path,
            before,
            editing.replace_lines(before, start, last, editing.without_numbers(text, start)),
        )

    @tool
    def undo(self) -> str:
        """Takes back the last edit."""
        path, self._fraction = self._workspace.undo()
        return "undone" if self._compact else f"took back the last edit of {path}"

    @tool
    def run_tests(self, paths: list[str] | None = None) -> str:
        """Runs the visible tests.

        Args:
            paths: test files or test ids; all visible tests by default.
        """
        if paths is None:
            return self._run_visible()
        for path in paths:
            if plain(path, "paths").startswith("-"):
                raise ToolCallError(f"{path!r} is an option: give paths or test ids")
        report = self._workspace.sandbox.run_pytest(
            [*_PYTEST_ARGS, *paths], timeout_s=self._test_timeout_s
        )
        return self._tell(report)

    @tool
    def bash(self, command: str, timeout_s: Annotated[float, Field(gt=0, le=600)] = 30.0) -> str:
        """Runs a command in a persistent shell.

        Args:
            command: what to run.
            timeout_s: seconds after which it is ended.
        """
        result = self._workspace.sandbox.exec(
            plain(command, "command", limit=None), timeout_s=timeout_s
        )
        self.step_info["exit_code"] = result.rc
        return describe_exec(result, limit=self._output_limit)

    @tool
    def submit(self) -> str:
        """Ends the episode: the hidden tests decide."""
        grade = self._grade()
        self._verdict = grade.outcome
        self.finish(grade.outcome)
        return "solved" if grade.solved else "not solved"

    # Inside.

    def _mishap(self) -> str | None:
        """What went wrong in this step; idle calls are no mishap, and a refused one hides broken tests."""
        if not self.step_results:
            return "no_call"
        if any(result.is_error and not result.idle for result in self.step_results):
            return "refused"
        return "broken_tests" if self._broke_tests else None

    def _run_visible(self) -> str:
        task = self.task
        report = self._workspace.sandbox.run_pytest(
            task.visible_tests, timeout_s=self._test_timeout_s
        )
        self.step_info |= count_tests(report)
        if self._collects and report.collection_errors and "edited" in self.step_info:
            self._broke_tests = True
        # An agent that weakens the visible tests, or what steers them, earns nothing by it.
        if self._workspace.holds(guarded_files(task), alone=steers_tests):
            self._fraction = passed_fraction(report)
        else:
            self.step_info["tests_changed"] = True
        return self._tell(report)

    def _tell(self, report: TestReport) -> str:
        """What the agent reads of a run of tests; its short form is part of the state's name."""
        self._summary(report)
        return self._clip(summarise_tests(report, limit=self._output_limit, compact=self._compact))

    def _summary(self, report: TestReport) -> str:
        self._shown = summarise_tests(report, limit=self._output_limit, compact=True)
        return self._shown

    def _grader(self) -> Grader:
        if self._shared_grader is not None:
            return self._shared_grader
        if self._own_grader is None:
            adaptive = self._adaptive_grading
            self._own_grader = Grader(self._backend, adaptive_timeout=adaptive)
        return self._own_grader

    def _grade(self) -> Grade:
        patch = self._workspace.sandbox.diff()
        grade = self._grader().grade(self.task, patch)
        self.step_info["grade"] = {
            "outcome": grade.outcome.value,
            "reason": grade.reason,
            "tampered": list(grade.tampered),
            "patch_bytes": len(patch),
        }
        return grade

    def _store(self, path: str, before: bytes | None, edit: editing.Edit) -> str:
        self._workspace.write(path, edit.content, before=before, fraction=self._fraction)
        name = relative(path)
        self.step_info["edited"] = {"path": name, "start": edit.start, "end": edit.end}
        answer = self._echo(name, edit)
        return f"{answer}\n{self._run_visible()}" if self._test_after_edit else answer

    def _echo(self, path: str, edit: editing.Edit) -> str:
        """The lines that the edit wrote; in the long form with those around them."""
        if self._compact:
            if edit.end < edit.start:
                return "deleted"
            if edit.end > edit.start:  # a model that wrote many lines need not read them again
                return f"{edit.start} to {edit.end} written"
            return self._clip(editing.number_lines(edit.content, edit.start, edit.end))
        total = edit.content.count(b"\n") + (not edit.content.endswith(b"\n"))
        first = max(1, edit.start - _CONTEXT_LINES)
        last = min(total, max(edit.end, edit.start) + _CONTEXT_LINES)
        shown = editing.number_lines(edit.content, first, last) if edit.content else "(empty file)"
        return self._clip(f"edited {path}\n{shown}")

    def _clip(self, text: str) -> str:
        return clip_text(text, self._output_limit)
