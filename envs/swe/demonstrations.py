"""A demonstrator that knows the repair, and does not always begin with it.

Warm starts need examples of the whole loop: a wrong edit, what the tests say then, taking it back, the
right edit, submission. The demonstrator makes them from *train* tasks only. Its wrong edits touch only
lines that a train task of the same module has broken, and never write a line that a held-out task starts
from: otherwise the held-out bugs would be in the demonstrations (a prototype leaked 159 of 163).
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentic_gym.envs.swe.injection import inverse_candidates
from agentic_gym.envs.swe.pocket import line_repair
from agentic_gym.envs.swe.task import SWETask
from agentic_gym.tools import format_action


@dataclass(frozen=True, slots=True)
class LineEdit:
    """One edit: a whole line replaced."""

    line: int
    text: str


@dataclass(frozen=True)
class WrongEdits:
    """Wrong edits that demonstrations may show.

    Attributes:
        lines: of each module, the lines that its train tasks break.
        forbidden: of each module, line texts that only held-out tasks contain.
    """

    lines: Mapping[str, frozenset[int]]
    forbidden: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @classmethod
    def from_tasks(cls, train: Iterable[SWETask], heldout: Iterable[SWETask]) -> WrongEdits:
        """Reads off what train tasks break and what held-out tasks must keep for themselves."""
        lines: dict[str, set[int]] = defaultdict(set)
        forbidden: dict[str, set[str]] = defaultdict(set)
        for task in train:
            lines[task.repo].add(line_repair(task).line)
        for task in heldout:
            forbidden[task.repo].add(line_repair(task).before.strip())
        return cls(
            {repo: frozenset(numbers) for repo, numbers in lines.items()},
            {repo: frozenset(texts) for repo, texts in forbidden.items()},
        )

    def of(self, task: SWETask) -> list[LineEdit]:
        """All wrong edits that a demonstration of this train task may make, in a fixed order."""
        repair = line_repair(task)
        source = task.files[repair.path]
        before = source.splitlines()
        allowed = self.lines.get(task.repo, frozenset())
        forbidden = self.forbidden.get(task.repo, frozenset())
        wrong: list[LineEdit] = []
        for candidate in inverse_candidates(source):
            after = candidate.splitlines()
            changed = [n for n, (a, b) in enumerate(zip(before, after, strict=True), 1) if a != b]
            if len(changed) != 1 or changed[0] not in allowed:
                continue
            text = after[changed[0] - 1]
            if text.strip() in forbidden or (changed[0] == repair.line and text == repair.after):
                continue
            wrong.append(LineEdit(changed[0], text))
        return wrong


class Demonstrator:
    """A policy that repairs a task whose gold patch it knows.

    Args:
        wrong_edits: what it may get wrong.
        wrong_rate: chance of one more wrong edit before the right one.
        max_wrong: most wrong edits of an episode.
    """

    def __init__(
        self, wrong_edits: WrongEdits, *, wrong_rate: float = 0.5, max_wrong: int = 3
    ) -> None:
        self._wrong_edits = wrong_edits
        self._wrong_rate = wrong_rate
        self._max_wrong = max_wrong
        self._plan: list[LineEdit] = []
        self._path = ""
        self._edited = False

    def reset(self, task: SWETask, seed: int) -> None:
        """Plans an episode; the same task and seed give the same plan."""
        rng = random.Random(f"{task.task_id}/{seed}")
        repair = line_repair(task)
        candidates = self._wrong_edits.of(task)
        here = [wrong for wrong in candidates if wrong.line == repair.line]
        elsewhere = [wrong for wrong in candidates if wrong.line != repair.line]
        self._plan = []
        while len(self._plan) < self._max_wrong and rng.random() < self._wrong_rate:
            pool = here if here and (not elsewhere or rng.random() < 0.5) else elsewhere
            fresh = [wrong for wrong in pool if wrong not in self._plan]
            if not fresh:
                break
            self._plan.append(rng.choice(fresh))
        self._plan.append(LineEdit(repair.line, repair.after))
        self._path = repair.path
        self._edited = False

    def act(self, observation: str, info: Mapping[str, Any]) -> str:
        """The next edit of the plan, taking back the last one; submission when the tests pass."""
        passed = self._edited and info.get("tests_passed") == info.get("tests_total")
        if passed or not self._plan:
            return format_action([("submit", {})])
        edit = self._plan.pop(0)
        calls: list[tuple[str, dict[str, Any]]] = [("undo", {})] if self._edited else []
        self._edited = True
        arguments = {"path": self._path, "start": edit.line, "end": edit.line, "text": edit.text}
        return format_action([*calls, ("edit_lines", arguments)])
