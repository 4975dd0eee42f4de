"""The bundled task set ``pocket``, and how any task set is loaded.

``pocket`` holds small utility modules with one injected bug each. It ships as built data, so that loading
it runs nothing; :mod:`.pocket_build` makes it anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from agentic_gym.envs.swe.patches import parse_patch
from agentic_gym.envs.swe.task import SWETask, read_tasks
from agentic_gym.errors import TaskError
from agentic_gym.suggest import did_you_mean, nearest_or_all, question

DATA = Path(__file__).parent / "data"
BUNDLED = {"pocket": DATA / "pocket.jsonl.gz"}
"""Name of a bundled set to its file."""
SPLITS = ("train", "dev", "heldout_bugs", "heldout_modules")
"""Splits of ``pocket``: to learn from; to choose settings on; and two to report, the bugs of lines that no
train task breaks, and modules of which no train task has any text."""


@dataclass(frozen=True, slots=True)
class PocketModule:
    """One right module with its tests.

    Attributes:
        name: module name, without ``.py``.
        source: its right text.
        visible: text of the tests that the agent sees.
        hidden: text of the tests that only grading runs.
    """

    name: str
    source: str
    visible: str
    hidden: str


@dataclass(frozen=True, slots=True)
class LineRepair:
    """The repair of a bug of one line.

    Attributes:
        path: file of the base tree.
        line: number of the line, from 1.
        before: the buggy text, without the line end.
        after: the right text.
    """

    path: str
    line: int
    before: str
    after: str


def pocket_modules() -> list[PocketModule]:
    """All modules of ``pocket``, sorted by name."""
    folder = DATA / "pocket"
    names = sorted(path.stem.removeprefix("test_") for path in folder.glob("test_*.py"))
    return [
        PocketModule(
            name,
            (folder / f"{name}.py").read_text("utf-8"),
            (folder / f"test_{name}.py").read_text("utf-8"),
            (folder / f"hidden_{name}.py").read_text("utf-8"),
        )
        for name in names
    ]


def load_tasks(name_or_path: str | Path, split: str | None = None) -> list[SWETask]:
    """Loads a bundled set by its name, or a JSONL file (also ``.jsonl.gz``).

    Args:
        name_or_path: ``"pocket"`` or the path of a file.
        split: keep the tasks of this split; all of them if None.

    Raises:
        TaskError: no such set, file or split (with the closest name), or the file is malformed.
    """
    return list(select_split(_read(str(name_or_path)), split, str(name_or_path)))


def select_split(tasks: Sequence[SWETask], split: str | None, name: str) -> Sequence[SWETask]:
    """The tasks of one split. Raises ``TaskError`` if there is none of that name."""
    if split is None:
        return tasks
    chosen = [task for task in tasks if task.split == split]
    if not chosen:
        known = sorted({task.split for task in tasks})
        raise TaskError(f"{name} has no split {split!r}.{nearest_or_all(split, known)}")
    return chosen


def find_task(tasks: Sequence[SWETask], task_id: str, name: str) -> SWETask:
    """The task with an id.

    Args:
        tasks: the set.
        task_id: which one.
        name: of the set, for the error.

    Raises:
        TaskError: there is none; says the closest ids, those with the word in them, or what ids look like.
    """
    for task in tasks:
        if task.task_id == task_id:
            return task
    ids = [task.task_id for task in tasks]
    inside = [id for id in ids if task_id and task_id in id][:5]
    hint = did_you_mean(task_id, ids, count=5) or question(inside)
    hint = hint or f" An id looks like {ids[0]!r}."
    raise TaskError(
        f"no task {task_id!r} in {name}.{hint} `agentic-gym tasks list {name}` lists them"
    )


def line_repair(task: SWETask) -> LineRepair:
    """The buggy line of a task and its right text, read from the gold patch.

    Raises:
        TaskError: the gold patch does more than replace one line.
    """
    changes: list[LineRepair] = []
    for file in parse_patch(task.gold_patch):
        for hunk in file.hunks:
            if len(hunk.old) == len(hunk.new) and file.old_path:
                pairs = zip(hunk.old, hunk.new, strict=True)
                changes += [
                    LineRepair(file.old_path, hunk.start + i, _text(old), _text(new))
                    for i, (old, new) in enumerate(pairs)
                    if old != new
                ]
            else:
                raise TaskError(f"{task.task_id}: the gold patch adds or removes lines")
    if len(changes) != 1:
        raise TaskError(f"{task.task_id}: the gold patch changes {len(changes)} lines, not one")
    return changes[0]


def _text(line: bytes) -> str:
    return line.decode("utf-8", "surrogateescape").rstrip("\r\n")


def _read(name_or_path: str) -> tuple[SWETask, ...]:
    if name_or_path in BUNDLED:
        return _bundled(name_or_path)
    path = Path(name_or_path)
    looks_like_path = path.suffix in (".jsonl", ".gz") or len(path.parts) > 1
    if not looks_like_path and not path.exists():
        hint = nearest_or_all(name_or_path, sorted(BUNDLED))
        raise TaskError(f"no task set {name_or_path!r}.{hint} Or give the path of a JSONL file.")
    return tuple(read_tasks(path))


@cache
def _bundled(name: str) -> tuple[SWETask, ...]:
    return tuple(read_tasks(BUNDLED[name]))
