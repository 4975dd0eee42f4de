"""A demonstrator that knows the repair, and does not always begin with it.

Warm starts need examples of the whole loop: a wrong edit, what the tests say then, taking it back, the
right edit, submission. An edit writes a block of a few lines anew (:mod:`.blocks`): which block is wrong can
be learned from the tests, and which of its lines need not be known to write them as they should be.

It goes down the file from some block to the broken one, and from the last block on to the first: what was
tried need not be remembered to try the next. With other blocks in any order, a small model wrote the same
one again and again.

Its wrong edits come from *train* tasks only: a block with a line that a train task of the same module starts
from. Wrong edits drawn from the mutation grammar were rejected: they contain held-out bugs (a prototype
leaked 159 of 163 that way).

A model that samples its messages also garbles them, and what follows a message that nobody demonstrated is
garbled too. So some edits are preceded by a garbled form of themselves, which the environment refuses or
carries out to no good. These, and edits that break a line, are slips: the model reads how they are mended,
and never learns to write them.

Recorded work is not all good work. Some demonstrators give up: after a first edit that did not help they
submit. That is imitated, and left to reinforcement learning to undo.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from agentic_gym.envs.swe.blocks import MAX_BLOCK_LINES, blocks
from agentic_gym.envs.swe.pocket import line_repair
from agentic_gym.envs.swe.task import SWETask
from agentic_gym.tools import format_action
from agentic_gym.types import Slip


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


@dataclass(frozen=True, slots=True)
class _Step:
    """An edit of the plan.

    Attributes:
        block: what it writes anew.
        lines: the file as the edit would have it.
        slip: whether it is not to be imitated.
        garbled: whether it is written wrongly.
    """

    block: range
    lines: list[str]
    slip: bool = False
    garbled: bool = False


class Demonstrator:
    """A policy that repairs a task whose gold patch it knows.

    Args:
        wrong_edits: what it may get wrong.
        detour_rate: chance that it begins one block earlier, and one more.
        max_detour: most blocks that it writes as they stand before it comes to the broken one.
        max_lines: most lines that an edit writes.
        slip_rate: chance that a block is first written with a bug.
        garble_rate: chance that it is first written garbled, and once more.
        give_up_rate: chance that it submits after a first edit, whether that helped or not.
        spared: tasks whose bugs a garbled edit must not spell by accident.
    """

    def __init__(
        self,
        wrong_edits: WrongEdits,
        *,
        detour_rate: float = 0.5,
        max_detour: int = 4,
        max_lines: int = MAX_BLOCK_LINES,
        slip_rate: float = 0.25,
        garble_rate: float = 0.0,
        give_up_rate: float = 0.0,
        spared: Iterable[SWETask] = (),
    ) -> None:
        self._wrong_edits = wrong_edits
        self._detour_rate = detour_rate
        self._max_detour = max_detour
        self._max_lines = max_lines
        self._slip_rate = slip_rate
        self._garble_rate = garble_rate
        self._give_up_rate = give_up_rate
        self._spared: dict[str, list[str]] = defaultdict(list)
        for task in spared:
            self._spared[task.repo].append(json.dumps(line_repair(task).before.strip())[1:-1])
        self._plan: list[_Step] = []
        self._path = ""
        self._rng = random.Random()
        self._avoid: list[str] = []

    def reset(self, task: SWETask, seed: int) -> None:
        """Plans an episode; the same task and seed give the same plan."""
        self._rng = rng = random.Random(f"{task.task_id}/{seed}")
        repair = line_repair(task)
        self._path, self._avoid = repair.path, self._spared.get(task.repo, [])
        lines = task.base_files[repair.path].decode().splitlines()
        right = _with_line(lines, LineEdit(repair.line, repair.after))
        cut = blocks(right, self._max_lines)
        broken = _around(cut, repair.line)
        wrong: dict[range, list[LineEdit]] = defaultdict(list)
        for edit in self._wrong_edits.of(task):
            wrong[_around(cut, edit.line)].append(edit)
        gives_up = rng.random() < self._give_up_rate
        detour = 0
        while detour < min(self._max_detour, len(cut) - 1) and rng.random() < self._detour_rate:
            detour += 1
        at = cut.index(broken)
        self._plan = []
        for index in range(at - detour, at + 1):
            block = cut[index % len(cut)]
            step = _Step(block, right if block == broken else lines)
            if wrong[block] and rng.random() < self._slip_rate:
                bug = _with_line(right, rng.choice(wrong[block]))
                self._plan.append(_Step(block, bug, slip=True))
            while rng.random() < self._garble_rate:
                self._plan.append(replace(step, slip=True, garbled=True))
            self._plan.append(step)
        if gives_up:
            del self._plan[1:]

    def act(self, observation: str, info: Mapping[str, Any]) -> str:
        """The next edit of the plan, taking back the last one; submission when the tests pass."""
        edited = "edited" in info
        passed = edited and info.get("tests_passed") == info.get("tests_total")
        if passed or not self._plan:
            return format_action([("submit", {})])
        step = self._plan.pop(0)
        block = step.block
        calls: list[tuple[str, dict[str, Any]]] = [("undo", {})] if edited else []
        # The lines as they are shown, number first: a small model that looks a line up by its number can
        # then copy it, and change what is wrong on the way.
        text = "\n".join(f"{index + 1}|{step.lines[index]}" for index in block)
        arguments = {"path": self._path, "start": block.start + 1, "text": text, "end": block.stop}
        action = format_action([*calls, ("edit_lines", arguments)])
        if step.garbled:
            action = garble(action, self._rng, self._avoid)
        return Slip(action) if step.slip else action


def garble(action: str, rng: random.Random, avoid: Sequence[str] = ()) -> str:
    """A message that went wrong somewhere: cut off, gone on with another piece of itself, or both.

    Args:
        action: a message with one edit, at the end of the message.
        rng: of the choices.
        avoid: texts that must not arise; if one does every time, the message is cut off at its middle.
    """
    start = action.index('"edit_lines"')
    for _ in range(8):
        cut = rng.randrange(start, len(action))
        again = rng.randrange(start, len(action))
        rest = action[again:]
        if rng.random() < 0.5:
            rest = rest[: rng.randrange(1, 80)] + rng.choice(
                ("", "\n</tool_call>", '"}}\n</tool_call>')
            )
        made = action[:cut] + rest
        if made != action and not any(made.count(text) > action.count(text) for text in avoid):
            return made
    return action[: (start + len(action)) // 2]


def _with_line(lines: Sequence[str], edit: LineEdit) -> list[str]:
    return [*lines[: edit.line - 1], edit.text, *lines[edit.line :]]


def _around(cut: Sequence[range], line: int) -> range:
    """The block of a line, from 1."""
    return next(block for block in cut if line - 1 in block)


class _HasTasks(Protocol):
    @property
    def tasks(self) -> Iterable[SWETask]: ...


def demonstrator(env: _HasTasks) -> Callable[[], Demonstrator]:
    """Makes demonstrators for the tasks of a training environment."""
    wrong_edits = WrongEdits(env.tasks)
    return lambda: Demonstrator(wrong_edits)
