"""PPO on TRL's trainer base, rollout schedules, and what feeds them (see docs/training.md).

Importing the package loads no torch; the names below are imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if __name__ != "agentic_gym.trainers":
    raise ImportError(
        "this folder is the package agentic_gym.trainers: import agentic_gym.trainers"
    )

if TYPE_CHECKING:
    from agentic_gym.trainers.config import AgenticPPOConfig
    from agentic_gym.trainers.ppo_trainer import AgenticPPOTrainer
    from agentic_gym.trainers.publisher import WeightPublisher
    from agentic_gym.trainers.runtime import Runtime
    from agentic_gym.trainers.schedules.sync import Sync
    from agentic_gym.trainers.selection import UniformTasks
    from agentic_gym.trainers.source import RecordedSource

_MODULES = {
    "AgenticPPOConfig": "config",
    "AgenticPPOTrainer": "ppo_trainer",
    "RecordedSource": "source",
    "Runtime": "runtime",
    "Sync": "schedules.sync",
    "UniformTasks": "selection",
    "WeightPublisher": "publisher",
}

__all__ = [
    "AgenticPPOConfig",
    "AgenticPPOTrainer",
    "RecordedSource",
    "Runtime",
    "Sync",
    "UniformTasks",
    "WeightPublisher",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
