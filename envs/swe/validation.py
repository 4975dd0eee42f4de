"""The gate for a task set: the gold patch scores 1 and no edit scores 0, several times each.

Whatever is trained or measured on a task presumes this; a task that does not pass is a wrong reward.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from agentic_gym.envs.swe.grading import Grade, Grader
from agentic_gym.envs.swe.task import SWETask
from agentic_gym.types import Outcome


@dataclass(frozen=True, slots=True)
class Validation:
    """What validating one task found.

    Attributes:
        task_id: of which task.
        problems: one line each; empty if the task is sound.
    """

    task_id: str
    problems: tuple[str, ...]


def validate_tasks(
    tasks: Sequence[SWETask],
    grader: Grader,
    *,
    repeats: int = 5,
    workers: int = 2,
    progress: Callable[[Validation], None] = lambda done: None,
) -> list[Validation]:
    """Validates tasks, ``workers`` at once; results in the order of the tasks.

    Raises:
        GraderError: the machinery broke, which says nothing about a task.
    """

    def one(task: SWETask) -> Validation:
        done = validate_task(task, grader, repeats=repeats)
        progress(done)
        return done

    with ThreadPoolExecutor(max(1, workers)) as pool:
        return list(pool.map(one, tasks))


def validate_task(task: SWETask, grader: Grader, *, repeats: int = 5) -> Validation:
    """Grades the gold patch and no edit ``repeats`` times each.

    Sound means: with the gold patch every expected test passes; without an edit the outcome is a plain
    failure in which exactly the tests of ``fail_to_pass`` do not pass (if the base hangs, only that).
    """
    problems: dict[str, None] = {}
    for _ in range(repeats):
        problems |= dict.fromkeys(gold_problems(grader.grade(task, task.gold_patch)))
        problems |= dict.fromkeys(
            no_edit_problems(grader.grade(task, None), hangs=task.error_class == "timeout")
        )
    return Validation(task.task_id, tuple(problems))


def gold_problems(grade: Grade) -> Iterable[str]:
    """What is wrong with a grade that the gold patch got."""
    if not grade.solved:
        yield f"the gold patch is not graded as solved: {grade.outcome.value}: {grade.reason}"


def no_edit_problems(grade: Grade, *, hangs: bool = False) -> Iterable[str]:
    """What is wrong with a grade that the base got.

    Where the base hangs, the order of files, which grading changes, decides which tests come before the
    hang: then only the outcome counts.
    """
    if grade.outcome is not Outcome.FAILED:
        yield f"no edit is graded as {grade.outcome.value}: {grade.reason}"
    if hangs:
        return
    passing = [node for node, status in grade.fail_to_pass.items() if status == "passed"]
    if passing:
        yield f"without an edit, tests of fail_to_pass pass: {', '.join(sorted(passing)[:3])}"
    failing = [node for node, status in grade.pass_to_pass.items() if status != "passed"]
    if failing:
        yield f"without an edit, tests of pass_to_pass fail: {', '.join(sorted(failing)[:3])}"
