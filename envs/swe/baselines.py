"""Agents that do not learn: what any learned one is compared with.

``noop`` submits at once and ``gold`` submits the known repair: the floor and the ceiling of every task set.
``random`` tries random one-line changes of the injection grammar and keeps what makes more tests pass;
``scripted`` does the same in the order in which a person would look: where failing tests and tracebacks
point first. Neither sees the gold patch or a hidden test.
"""

from __future__ import annotations

import ast
import base64
import random
import re
import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Protocol

from agentic_gym.agent import PolicyAgent
from agentic_gym.envs.swe.editing import decode, replace_lines, split_lines
from agentic_gym.envs.swe.injection import inverse_candidates
from agentic_gym.envs.swe.observations import source_files
from agentic_gym.envs.swe.patches import apply_patch, parse_patch
from agentic_gym.envs.swe.task import SWETask
from agentic_gym.errors import ConfigError, ToolCallError
from agentic_gym.rollout import Launch
from agentic_gym.suggest import did_you_mean
from agentic_gym.tools import format_action

_MAX_SEARCHED_LINES = 400

Call = tuple[str, dict[str, Any]]


class Policy(Protocol):
    """What plays an episode without a model."""

    def reset(self, task: SWETask, seed: int) -> None:
        """Begins an episode; equal task, seed and observations give equal actions."""
        ...

    def act(self, observation: str, info: Mapping[str, Any]) -> str:
        """The next message, given what ``reset`` or ``step`` of the environment returned."""
        ...


@dataclass(frozen=True, slots=True)
class Change:
    """A changed file.

    Attributes:
        path: of the file.
        line: first line that differs, from 1.
        before: the whole text.
        after: the whole changed text.
    """

    path: str
    line: int
    before: str
    after: str


Order = Callable[[SWETask, Sequence[Change], str, random.Random], list[Change]]
"""Sorts the changes to try, given the task and the last observation."""


class NoopPolicy:
    """Submits the task as it is."""

    def reset(self, task: SWETask, seed: int) -> None:
        """Nothing to prepare."""

    def act(self, observation: str, info: Mapping[str, Any]) -> str:
        """Submits."""
        return format_action([("submit", {})])


class GoldPolicy:
    """Makes the gold patch's change through the tools, then submits."""

    def __init__(self) -> None:
        self._calls: list[Call] = []

    def reset(self, task: SWETask, seed: int) -> None:
        """Reads the repair."""
        base = task.base_files
        repaired = apply_patch(base, parse_patch(task.gold_patch))
        self._calls = [
            _call_to_write(path, base.get(path), repaired.get(path))
            for path in sorted({*base, *repaired})
            if base.get(path) != repaired.get(path)
        ]

    def act(self, observation: str, info: Mapping[str, Any]) -> str:
        """All edits in the first message, submission in the second."""
        calls, self._calls = self._calls, []
        return format_action(calls or [("submit", {})])


class SearchPolicy:
    """Tries one-line changes, one a turn, and keeps those with which more visible tests pass.

    Args:
        order: which changes to try first.
        look: whether the first message looks at the files and runs the tests.
    """

    def __init__(self, order: Order, *, look: bool) -> None:
        self._order = order
        self._look = look
        self._tools: frozenset[str] = frozenset()

    def reset(self, task: SWETask, seed: int) -> None:
        """Starts from the base tree."""
        self._task = task
        self._rng = random.Random(f"{task.task_id}/{seed}")
        texts = {path: decode(content) for path, content in source_files(task).items()}
        self._files = {
            path: text
            for path, text in texts.items()
            if len(split_lines(text)) <= _MAX_SEARCHED_LINES
        }
        self._queue: list[Change] | None = None
        self._tried: Change | None = None
        self._to_look = self._look
        self._best = 0.0

    def act(self, observation: str, info: Mapping[str, Any]) -> str:
        """Judges the last change, takes it back if it did not help, and tries the next."""
        if "tools" in info:
            self._tools = frozenset(item["function"]["name"] for item in info["tools"])
        calls = self._judge(_fraction(info))
        if self._best >= 1:
            return format_action([("submit", {})])
        if self._to_look:
            self._to_look = False
            if looks := self._looks():
                return format_action(looks)
        if self._queue is None:
            changes = _changes(self._files)
            self._queue = self._order(self._task, changes, observation, self._rng)
        if not self._queue:
            return format_action([*calls, ("submit", {})])
        self._tried = self._queue.pop(0)
        calls.append(_edit_call(self._tried.path, self._tried.before, self._tried.after))
        if "run_tests" in self._tools:
            calls.append(("run_tests", {}))
        return format_action(calls)

    def _judge(self, fraction: float) -> list[Call]:
        tried, self._tried = self._tried, None
        if tried is None:
            self._best = max(self._best, fraction)
        elif fraction > self._best:
            self._best = fraction
            self._files[tried.path] = tried.after
            self._queue = None
        else:
            return [_edit_call(tried.path, tried.after, tried.before)]
        return []

    def _looks(self) -> list[Call]:
        views: list[Call] = [("view", {"path": path}) for path in self._files]
        runs: list[Call] = [("run_tests", {})]
        return [call for call in (*views, *runs) if call[0] in self._tools]


def random_order(
    task: SWETask, changes: Sequence[Change], observation: str, rng: random.Random
) -> list[Change]:
    """Any order."""
    return rng.sample(changes, len(changes))


def suspicious_order(
    task: SWETask, changes: Sequence[Change], observation: str, rng: random.Random
) -> list[Change]:
    """Lines that a traceback names, then functions that failing tests call more than passing ones do.

    Within the same suspicion lines take turns, so that no line with many candidates eats the budget.
    """
    places = {(path, int(line)) for path, line in re.findall(r"([\w./-]+\.py):(\d+)", observation)}
    lines = {int(line) for line in re.findall(r"\bline (\d+)", observation)}
    suspects = _suspects(task, set(re.findall(r"\btest\w*", observation)))
    owners = {path: _owners(text) for path, text in {c.path: c.before for c in changes}.items()}
    nth: Counter[tuple[str, int]] = Counter()
    keyed: list[tuple[float, Change]] = []
    for change in rng.sample(changes, len(changes)):
        place = (change.path, change.line)
        suspicion = 2.0 * (place in places) + 1.0 * (change.line in lines)
        suspicion += suspects.get(owners[change.path].get(change.line, ""), 0.0)
        keyed.append((nth[place] / 6 - suspicion, change))
        nth[place] += 1
    return [change for _, change in sorted(keyed, key=lambda pair: pair[0])]


BASELINES: dict[str, Callable[[], Policy]] = {
    "noop": NoopPolicy,
    "gold": GoldPolicy,
    "random": lambda: SearchPolicy(random_order, look=False),
    "scripted": lambda: SearchPolicy(suspicious_order, look=True),
}


def make_baseline(name: str) -> Policy:
    """A baseline by its name. Raises ``ConfigError`` if there is none of that name."""
    if name not in BASELINES:
        hint = did_you_mean(name, BASELINES)
        raise ConfigError(f"no baseline {name!r}.{hint} There is: {', '.join(BASELINES)}")
    return BASELINES[name]()


class _HasTasks(Protocol):
    @property
    def tasks(self) -> Sequence[SWETask]: ...


def random_agents(env: _HasTasks) -> Callable[[Launch], PolicyAgent]:
    """Agents of the ``random`` baseline for the tasks of an environment."""
    by_id = {task.task_id: task for task in env.tasks}
    return lambda launch: PolicyAgent(make_baseline("random"), task=by_id[launch.task_id])


def _changes(files: Mapping[str, str]) -> list[Change]:
    return [
        Change(path, _span(text, after)[0] + 1, text, after)
        for path, text in files.items()
        for after in inverse_candidates(text)
    ]


def _suspects(task: SWETask, failing: set[str]) -> dict[str, float]:
    """Share of failing tests among the visible tests that name a function, by name."""
    named: dict[str, list[bool]] = {}
    for path in task.visible_tests:
        try:
            module = ast.parse(task.files[path])
        except SyntaxError:
            continue
        for node in ast.walk(module):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
                for name in {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}:
                    named.setdefault(name, []).append(node.name in failing)
    return {name: sum(fails) / len(fails) for name, fails in named.items()}


def _owners(source: str) -> dict[int, str]:
    """Line to the name of the function or class at the top level that holds it."""
    try:
        module = ast.parse(source)
    except SyntaxError:
        return {}
    return {
        line: node.name
        for node in module.body
        if isinstance(node, (ast.FunctionDef, ast.ClassDef))
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def _fraction(info: Mapping[str, Any]) -> float:
    passed, total = info.get("tests_passed", 0), info.get("tests_total", 1)
    return float(passed / max(1, total))


def _span(before: str, after: str) -> tuple[int, int, int]:
    """Number of equal lines at the head; end of the differing lines in ``before`` and ``after``."""
    old, new = split_lines(before), split_lines(after)
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return head, len(old) - tail, len(new) - tail


def _edit_call(path: str, before: str, after: str) -> Call:
    head, end, new_end = _span(before, after)
    text = "".join(split_lines(after)[head:new_end]).replace("\r\n", "\n")
    if text != "\n":
        text = text.removesuffix("\n")
    return "edit_lines", {"path": path, "start": head + 1, "end": end, "text": text}


def _call_to_write(path: str, old: bytes | None, new: bytes | None) -> Call:
    """One call after which the file holds ``new``; through the shell where the edits cannot say it."""
    quoted = shlex.quote(path)
    if new is None:
        return "bash", {"command": f"rm -- {quoted}"}
    if old is not None:
        call = _edit_call(path, decode(old), decode(new))
        arguments = call[1]
        try:
            arguments["text"].encode()  # lone surrogates cannot stand in a message
            edit = replace_lines(old, arguments["start"], arguments["end"], arguments["text"])
            if edit.content == new:
                return call
        except (ToolCallError, UnicodeError):
            pass
    text = base64.b64encode(new).decode()
    folder = shlex.quote(str(PurePosixPath(path).parent))
    return "bash", {"command": f"mkdir -p -- {folder} && printf %s {text} | base64 -d > {quoted}"}
