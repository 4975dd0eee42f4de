"""Arguments of the environment in the forms in which they may be given."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentic_gym.envs.swe.task import SWETask
from agentic_gym.errors import ConfigError, TaskError
from agentic_gym.rewards.outcome import RewardConfig
from agentic_gym.sandbox.base import SandboxBackend


def load(tasks: str | Path | Sequence[SWETask], split: str | None) -> Sequence[SWETask]:
    """Tasks of a bundled set, of a file, or as given. Raises ``TaskError``."""
    from agentic_gym.envs.swe.pocket import load_tasks, select_split

    if isinstance(tasks, (str, Path)):
        return load_tasks(tasks, split)
    if not tasks:
        raise TaskError("tasks is empty: give at least one task")
    return list(tasks) if split is None else list(select_split(tasks, split, "the list of tasks"))


def reward_weights(reward: RewardConfig | Mapping[str, float] | None) -> RewardConfig:
    """Weights as a ``RewardConfig``. Raises ``ConfigError`` for an unknown name."""
    if isinstance(reward, RewardConfig):
        return reward
    try:
        return RewardConfig(**(reward or {}))
    except TypeError:
        known = [field.name for field in dataclasses.fields(RewardConfig)]
        raise ConfigError(f"reward={reward!r}: give a RewardConfig, or some of {known}") from None


def choose_backend(backend: SandboxBackend | str | None, *, allow_unsafe: bool) -> SandboxBackend:
    """The backend as given, by its name, or the best that works here."""
    if backend is not None and not isinstance(backend, str):
        return backend
    from agentic_gym.sandbox.select import select_backend

    return select_backend(backend or "auto", allow_unsafe=allow_unsafe)
