"""Arguments of the environment in the forms in which they may be given."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentic_gym.envs.swe.grading import Grader
from agentic_gym.envs.swe.observations import source_files
from agentic_gym.envs.swe.sharing import shared_sandboxes
from agentic_gym.envs.swe.task import SWETask
from agentic_gym.errors import ConfigError, TaskError
from agentic_gym.rewards.outcome import RewardConfig
from agentic_gym.sandbox.base import SandboxBackend
from agentic_gym.suggest import did_you_mean


def load(
    tasks: str | Path | Sequence[SWETask], split: str | None, max_source_chars: int | None
) -> Sequence[SWETask]:
    """Tasks of a bundled set, of a file, or as given; those with short sources if a limit is given.

    Raises:
        TaskError: they cannot be loaded, or none is left.
    """
    from agentic_gym.envs.swe.pocket import load_tasks, select_split

    if isinstance(tasks, (str, Path)):
        found = load_tasks(tasks, split)
    elif split is None:
        found = list(tasks)
    else:
        found = list(select_split(tasks, split, "the list of tasks"))
    if max_source_chars is not None:
        found = [task for task in found if source_chars(task) <= max_source_chars]
    if not found:
        raise TaskError(
            f"no task is left (split={split!r}, max_source_chars={max_source_chars}): give others"
        )
    return found


def source_chars(task: SWETask) -> int:
    """Characters of a task's Python files that are not tests: what a small model has to read."""
    return sum(len(content) for content in source_files(task).values())


def reward_weights(reward: RewardConfig | Mapping[str, float] | None) -> RewardConfig:
    """Weights as a ``RewardConfig``. Raises ``ConfigError`` for an unknown name or a wrong value."""
    if isinstance(reward, RewardConfig):
        return reward
    known = [field.name for field in dataclasses.fields(RewardConfig)]
    if not isinstance(reward, Mapping | None):
        raise ConfigError(
            f"reward={reward!r} is no mapping: give a RewardConfig, or weights by name: "
            f"{', '.join(known)}"
        )
    for name, value in (reward or {}).items():
        if name not in known:
            raise ConfigError(
                f"reward.{name}={value!r} is not known.{did_you_mean(str(name), known)} "
                f"Known: {', '.join(known)}"
            )
    return RewardConfig(**(reward or {}))


def choose_backend(backend: SandboxBackend | str | None, *, allow_unsafe: bool) -> SandboxBackend:
    """The backend as given, by its name, or the best that works here."""
    if backend is not None and not isinstance(backend, str):
        return backend
    from agentic_gym.sandbox.select import select_backend

    return select_backend(backend or "auto", allow_unsafe=allow_unsafe)


def sandboxes_of(
    tools: Collection[str],
    backend: SandboxBackend | str | None,
    grader: Grader | None,
    *,
    allow_unsafe: bool,
    sandboxes: int,
    cache_tests: int,
    adaptive_grading: bool,
) -> tuple[SandboxBackend, Grader | None]:
    """What makes an environment's sandboxes, and the grader that it shares, if any.

    Raises:
        ConfigError: settings that do not go together.
        SandboxUnavailable: no backend works here.
    """
    if adaptive_grading and grader is not None:
        raise ConfigError("adaptive_grading is not read with a grader of your own: tell that one")
    if sandboxes:
        refuse_shell(tools, sandboxes, backend)
        shared = shared_sandboxes(
            str(backend or "auto"), allow_unsafe, sandboxes, cache_tests, adaptive_grading
        )
        return shared[0], grader or shared[1]
    if cache_tests:
        raise ConfigError(f"cache_tests={cache_tests} needs sandboxes, which share the cache")
    return choose_backend(backend, allow_unsafe=allow_unsafe), grader


def choose_tools(tools: Sequence[str] | None, known: Collection[str]) -> frozenset[str]:
    """The tools on offer, all by default. Raises ``ConfigError`` for an unknown one."""
    for name in tools or ():
        if name not in known:
            hint = did_you_mean(name, known)
            raise ConfigError(f"no tool {name!r}.{hint} Tools: {', '.join(known)}")
    return frozenset(known if tools is None else tools)


def choose_task(
    options: Mapping[str, Any], tasks: Sequence[SWETask], index: Mapping[str, SWETask]
) -> SWETask | None:
    """The task that ``reset`` options name, None if they name none.

    Raises:
        ConfigError: an option is unknown.
        TaskError: there is no such task.
    """
    unknown = sorted(options.keys() - {"task_id", "task_index"})
    if unknown:
        raise ConfigError(f"unknown reset option {unknown[0]!r}: give task_id or task_index")
    if "task_id" in options:
        task_id = options["task_id"]
        if task_id not in index:
            hint = did_you_mean(str(task_id), index)
            raise TaskError(f"no task {task_id!r} among {len(tasks)}.{hint}")
        return index[task_id]
    if "task_index" in options:
        number = options["task_index"]
        if not isinstance(number, int) or not 0 <= number < len(tasks):
            raise TaskError(f"task_index={number!r} is not in 0..{len(tasks) - 1}")
        return tasks[number]
    return None


def refuse_shell(tools: Collection[str], sandboxes: int, backend: object) -> None:
    """Raises ``ConfigError`` where shared sandboxes cannot serve an environment."""
    if sandboxes < 0 or not isinstance(backend, str | None):
        raise ConfigError(
            f"sandboxes={sandboxes} needs a positive number and a backend by its name"
        )
    if "bash" in tools:
        raise ConfigError(
            f"sandboxes={sandboxes} shares sandboxes between episodes, and a shell needs one of its "
            "own: give tools without 'bash', or sandboxes=0"
        )
