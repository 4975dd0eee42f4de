"""``agentic-gym tasks``: makes, lists, shows, validates and profiles sets of software-engineering tasks."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import tyro
from pydantic import Field
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from agentic_gym.cli import Command
from agentic_gym.config import StrictConfig, parse_flags
from agentic_gym.envs.swe import profile_command
from agentic_gym.envs.swe.grading import Grader
from agentic_gym.envs.swe.pocket import (
    BUNDLED,
    find_task,
    load_tasks,
)
from agentic_gym.envs.swe.pocket_build import build, card, choose_modules
from agentic_gym.envs.swe.task import SWETask, write_tasks
from agentic_gym.envs.swe.validation import Validation, validate_tasks
from agentic_gym.errors import TaskError
from agentic_gym.sandbox.select import select_backend
from agentic_gym.suggest import nearest_or_all

_USAGE = """usage: agentic-gym tasks make|list|show|validate|profile …

  make pocket          build the bundled task set anew
  list [SET]           list the tasks of a set or file (default: pocket)
  show ID              one task: what the agent is told, the bug, the tests
  validate [SET]       grade the gold patch and no edit, several times each
  profile              how often a policy solves each task: which are worth training

SET is a bundled set's name or a JSONL file. agentic-gym tasks ACTION --help tells more."""

_MAX_WORKERS = 64
_WIDE = 200  # columns of a table that no terminal shows: nothing is cut off for a pipe
Workers = Annotated[int, Field(ge=1, le=_MAX_WORKERS)]
TaskSet = tyro.conf.Positional[str]
C = TypeVar("C", bound=StrictConfig)


def _cpus() -> int:
    affinity = hasattr(os, "sched_getaffinity")
    count = len(os.sched_getaffinity(0)) if affinity else os.cpu_count() or 1
    return min(count, _MAX_WORKERS)


class MakeConfig(StrictConfig):
    """Build a bundled task set from its modules. Every outcome comes from a run in a sandbox."""

    name: TaskSet = "pocket"
    """Which set."""
    output: Path = Path("pocket.jsonl")
    """File to write; a name that ends in .gz is gzipped. A card with counts is written beside it."""
    modules: tuple[str, ...] = ()
    """Only these modules, as they are in the whole set."""
    validate_repeats: Annotated[int, Field(ge=0), tyro.conf.arg(name="validate")] = 0
    """Validate the built tasks too, with this many gradings each; 0 leaves it out."""
    workers: Workers = _cpus()
    """How many modules are built, and tasks validated, at once."""


class ListConfig(StrictConfig):
    """List the tasks of a set."""

    tasks: TaskSet = "pocket"
    """A bundled set or a JSONL file."""
    split: str | None = None
    """Only this split."""
    format: Literal["text", "json"] = "text"
    """A table for people, or one JSON array."""


class ShowConfig(StrictConfig):
    """Show one task with its repair and hidden tests."""

    task_id: tyro.conf.Positional[str]
    """Id, as `tasks list` prints it."""
    tasks: str = "pocket"
    """A bundled set or a JSONL file."""
    format: Literal["text", "json"] = "text"
    """Text for people, or the task as one JSON object."""


class ValidateConfig(StrictConfig):
    """Check that gold patches score 1 and that no edit scores 0."""

    tasks: TaskSet = "pocket"
    """A bundled set or a JSONL file."""
    split: str | None = None
    """Only this split."""
    repeats: Annotated[int, Field(ge=1)] = 5
    """Gradings of each kind a task."""
    workers: Workers = _cpus()
    """How many tasks are validated at once."""


def run(argv: list[str]) -> int:
    """Runs one action and returns the exit status; 1 means that a task is not sound."""
    if not argv or argv[0] in ("-h", "--help"):
        print(_USAGE)
        return 0
    action, rest = argv[0], argv[1:]
    if action not in _ACTIONS:
        raise TaskError(f"tasks has no action {action!r}.{nearest_or_all(action, list(_ACTIONS))}")
    return _ACTIONS[action](rest)


def row(task: SWETask) -> dict[str, Any]:
    """What ``list`` says of one task."""
    return {
        "id": task.task_id,
        "repo": task.repo,
        "split": task.split,
        "error_class": task.error_class,
        "operator": task.operator,
        "fail_to_pass": len(task.fail_to_pass),
        "pass_to_pass": len(task.pass_to_pass),
        "problem_statement": task.problem_statement,
    }


def _make(argv: list[str]) -> int:
    config = parse_flags(MakeConfig, argv, prog="agentic-gym tasks make")
    if config.name not in BUNDLED:
        hint = nearest_or_all(config.name, list(BUNDLED))
        raise TaskError(f"no bundled task set {config.name!r}.{hint}")
    modules = choose_modules(config.modules)
    backend = select_backend()
    with _progress("building", len(modules)) as advance:
        tasks = build(
            backend,
            modules,
            workers=config.workers,
            progress=lambda name, count: advance(f"{name}: {count} tasks"),
        )
    counts = card(tasks)
    write_tasks(tasks, config.output)
    beside = config.output.with_name(config.output.name.split(".")[0] + ".card.json")
    beside.write_text(json.dumps(counts, indent=2) + "\n", encoding="utf-8")
    print(f"{len(tasks)} tasks of {counts['modules']} modules in {config.output}, {_short(counts)}")
    return _report(tasks, config.validate_repeats, config.workers) if config.validate_repeats else 0


def _list(argv: list[str]) -> int:
    config = parse_flags(ListConfig, argv, prog="agentic-gym tasks list")
    tasks = load_tasks(config.tasks, config.split)
    if config.format == "json":
        print(json.dumps([row(task) for task in tasks]))
        return 0
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("id", "split", "error class", "tests that fail"):
        right = "tests" in column
        table.add_column(
            column, no_wrap=column != "id", overflow="fold", justify="right" if right else "left"
        )
    for task in tasks:
        table.add_row(task.task_id, task.split, task.error_class, str(len(task.fail_to_pass)))
    Console(width=None if sys.stdout.isatty() else _WIDE).print(table)
    print(f"{len(tasks)} tasks, {_short(card(tasks))}")
    return 0


def _show(argv: list[str]) -> int:
    config = parse_flags(ShowConfig, argv, prog="agentic-gym tasks show")
    task = find_task(load_tasks(config.tasks), config.task_id, config.tasks)
    if config.format == "json":
        print(task.model_dump_json())
        return 0
    print(f"{task.task_id}  ({task.split}, {task.error_class}, {task.operator or 'no operator'})\n")
    print(task.problem_statement)
    for title, files in (("", task.files), ("hidden: ", task.hidden_tests)):
        for path, text in files.items():
            print(f"\n── {title}{path}\n{text.rstrip()}")
    print(f"\n── gold patch\n{task.gold_patch.rstrip()}")
    print(f"\n── must change from failing to passing\n{chr(10).join(task.fail_to_pass)}")
    return 0


def _validate(argv: list[str]) -> int:
    config = parse_flags(ValidateConfig, argv, prog="agentic-gym tasks validate")
    return _report(load_tasks(config.tasks, config.split), config.repeats, config.workers)


def _report(tasks: Sequence[SWETask], repeats: int, workers: int) -> int:
    grader = Grader(select_backend(), size=workers)
    try:
        with _progress("validating", len(tasks)) as advance:

            def done(result: Validation) -> None:
                advance(result.task_id)

            results = validate_tasks(tasks, grader, repeats=repeats, workers=workers, progress=done)
    finally:
        grader.close()
    unsound = [result for result in results if result.problems]
    for result in unsound:
        print(f"{result.task_id}: {'; '.join(result.problems)}")
    sound = len(results) - len(unsound)
    print(
        f"{sound} of {len(results)} tasks are sound: gold scored 1 and no edit 0, {repeats} times"
    )
    return 1 if unsound else 0


@contextmanager
def _progress(what: str, total: int) -> Iterator[Callable[[str], None]]:
    """A progress bar on standard error; the yielded function says what was done."""
    with Progress(*Progress.get_default_columns(), console=Console(stderr=True)) as bar:
        handle = bar.add_task(what, total=total)
        yield lambda text: bar.update(handle, advance=1, description=f"{what} {text}")


def _short(counts: Mapping[str, Any]) -> str:
    return ", ".join(f"{count} {split}" for split, count in counts["splits"].items())


_ACTIONS: dict[str, Callable[[list[str]], int]] = {
    "make": _make,
    "list": _list,
    "show": _show,
    "validate": _validate,
    "profile": profile_command.run,
}

TASKS = Command("tasks", "make, list, show, validate and profile task sets", run)
