"""One software-engineering task, and files of tasks (JSONL, one task a line).

A task carries its repository (``files``), so that it can be run anywhere without a download. Node ids are
pytest's, relative to the workspace.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from agentic_gym.errors import TaskError
from agentic_gym.suggest import did_you_mean

ErrorClass = Literal["syntax", "import", "type", "name", "logic", "exception", "timeout", "other"]
"""What the tests show before the repair; task selection keeps these in balance."""


def _relative_posix(path: str) -> str:
    pure = PurePosixPath(path)
    if not path or pure.is_absolute() or ".." in pure.parts or "\0" in path or str(pure) != path:
        raise ValueError(f"{path!r} is not a clean relative POSIX path (no '..', no leading '/')")
    return path


RelativePath = Annotated[str, AfterValidator(_relative_posix)]


class SWETask(BaseModel):
    """A repository with something wrong, and the tests that decide.

    Attributes:
        task_id: unique in its set.
        repo: name of the repository or module that it comes from.
        files: the base tree as the agent finds it (text).
        problem_statement: what the agent is told.
        test_command: the visible test command, for the agent's shell.
        visible_tests: paths in ``files`` that ``run_tests`` runs.
        hidden_tests: test files uploaded for grading only; they overwrite files of the same path.
        fail_to_pass: node ids that fail on the base and pass after the gold patch.
        pass_to_pass: node ids that pass before and after.
        gold_patch: unified diff that repairs the base.
        error_class: what the tests show before the repair.
        split: "train", "heldout_bugs", "heldout_modules", or a set's own.
        operator: the injection operator, if the bug was injected.
        grade_timeout_s: budget of one grading run.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    task_id: Annotated[str, Field(min_length=1, max_length=200)]
    repo: str
    files: dict[RelativePath, str]
    problem_statement: str
    test_command: str = "python -m pytest -q"
    visible_tests: list[RelativePath] = []
    hidden_tests: dict[RelativePath, str] = {}
    fail_to_pass: Annotated[list[str], Field(min_length=1)]
    pass_to_pass: list[str] = []
    gold_patch: str
    error_class: ErrorClass = "other"
    split: str = "train"
    operator: str | None = None
    grade_timeout_s: Annotated[float, Field(gt=0)] = 30.0

    @model_validator(mode="after")
    def _consistent(self) -> SWETask:
        both = set(self.fail_to_pass) & set(self.pass_to_pass)
        if both:
            raise ValueError(f"ids in fail_to_pass and in pass_to_pass: {sorted(both)[:3]}")
        paths = {*self.files, *self.hidden_tests}
        folders = {str(parent) for path in paths for parent in PurePosixPath(path).parents}
        if clash := sorted(paths & folders):
            raise ValueError(f"paths that are a file and a folder: {clash[:3]}")
        missing = [path for path in self.visible_tests if path not in self.files]
        if missing:
            raise ValueError(f"visible_tests names files that the repository lacks: {missing}")
        return self

    @property
    def base_files(self) -> dict[str, bytes]:
        """The base tree as bytes, for a sandbox."""
        return {path: text.encode("utf-8", "surrogateescape") for path, text in self.files.items()}


def read_tasks(path: Path) -> list[SWETask]:
    """Reads a JSONL file of tasks (gzipped if its name ends in ``.gz``).

    Raises:
        TaskError: the file is missing or cannot be read, a line does not parse (with its number), or an
            id comes twice.
    """
    if path.is_dir():
        raise TaskError(f"{path} is a folder: give a JSONL file in it, one task a line")
    if not path.is_file():
        raise TaskError(f"no task file at {path}: give a JSONL file, one task a line")
    tasks: list[SWETask] = []
    seen: set[str] = set()
    for number, line in _numbered_lines(path):
        try:
            task = SWETask.model_validate_json(line)
        except ValidationError as error:
            raise TaskError(f"{path}:{number}: {_explain(error)}") from error
        if task.task_id in seen:
            raise TaskError(f"{path}:{number}: task id {task.task_id!r} comes twice")
        seen.add(task.task_id)
        tasks.append(task)
    if not tasks:
        raise TaskError(f"{path} holds no task")
    return tasks


def write_tasks(tasks: Iterable[SWETask], path: Path) -> None:
    """Writes tasks as JSONL with sorted keys, so that equal sets give equal bytes; all or nothing.

    A name that ends in ``.gz`` gets a gzip file without name and time.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(task.model_dump(mode="json"), sort_keys=True) + "\n" for task in tasks)
    raw = "".join(lines).encode("utf-8")
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(gzip.compress(raw, mtime=0) if path.suffix == ".gz" else raw)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _explain(error: ValidationError) -> str:
    """What is wrong with a task, in one line; a key that nothing knows first, since it is often the cause."""
    details = error.errors(include_url=False)
    first = next((one for one in details if one["type"] == "extra_forbidden"), details[0])
    where = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        known = list(SWETask.model_fields)
        hint = did_you_mean(where, known) or f" A task has: {', '.join(known)}"
        return f"unknown key {where[:60]!r}.{hint}"
    if first["type"] == "missing":
        return f"{where!r} is missing"
    if first["type"] == "json_invalid":
        # The parser counts lines too, and sees only this one.
        reason = re.sub(r" at line 1 column (\d+)$", r" at column \1", first["ctx"]["error"])
        return f"this line is not JSON: {reason}{'. Is it cut off?' if 'EOF' in reason else ''}"
    if first["type"] == "value_error":
        return ": ".join(filter(None, [where, str(first["ctx"]["error"])]))
    return f"{where}: {first['msg']}" if where else first["msg"]


def _numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield number, line.rstrip("\r\n")
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise TaskError(f"{path} cannot be read as JSONL: {error}") from error
