"""A demonstrator that knows the repair, and does not always begin with it.

Warm starts need examples of the whole loop: a wrong edit, what the tests say then, taking it back, the
right edit, submission. The demonstrator makes them from *train* tasks only: its wrong edits write lines
that train tasks of the same module start from. Wrong edits drawn from the mutation grammar were rejected:
they contain held-out bugs (a prototype leaked 159 of 163 that way).
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from agentic_gym.envs.swe.pocket import line_repair
from agentic_gym.envs.swe.task import SWETask
from agentic_gym.tools import format_action


@dataclass(frozen=True, slots=True)
class LineEdit:
    """One edit: a whole line replaced."""

    line: int
    text: str


class WrongEdits:
    """Wrong edits that demonstrations may show, by module.

    Args:
        train: the tasks whose buggy lines may be written.
    """

    def __init__(self, train: Iterable[SWETask]) -> None:
        edits: dict[str, set[LineEdit]] = defaultdict(set)
        for task in train:
            repair = line_repair(task)
            edits[task.repo].add(LineEdit(repair.line, repair.before))
        self._edits = {
            repo: sorted(found, key=lambda edit: (edit.line, edit.text))
            for repo, found in edits.items()
        }

    def of(self, task: SWETask) -> list[LineEdit]:
        """All wrong edits for a train task; its own bug is none, for it is there already."""
        repair = line_repair(task)
        own = LineEdit(repair.line, repair.before)
        return [edit for edit in self._edits.get(task.repo, []) if edit != own]


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
        wrong = self._wrong_edits.of(task)
        self._plan = []
        while len(self._plan) < min(self._max_wrong, len(wrong)):
            if rng.random() >= self._wrong_rate:
                break
            edit = rng.choice(wrong)
            wrong.remove(edit)
            self._plan.append(edit)
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
        # The line as it is shown, number first: a small model that looks a line up by its number can
        # then copy it, and change what is wrong on the way.
        text = f"{edit.line}|{edit.text}"
        arguments = {"path": self._path, "start": edit.line, "text": text}
        return format_action([*calls, ("edit_lines", arguments)])


class _HasTasks(Protocol):
    @property
    def tasks(self) -> Iterable[SWETask]: ...


def demonstrator(env: _HasTasks) -> Callable[[], Demonstrator]:
    """Makes demonstrators for the tasks of a training environment."""
    wrong_edits = WrongEdits(env.tasks)
    return lambda: Demonstrator(wrong_edits)
