"""agentic-gym: train and evaluate software-engineering agents.

Names load lazily: importing this package loads neither torch nor transformers nor docker.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentic_gym.checker import check_env
    from agentic_gym.env import ToolEnv
    from agentic_gym.registration import make, register
    from agentic_gym.tools import tool
    from agentic_gym.types import Outcome, Trajectory, Turn

__version__ = "0.1.0"

_HOME = {
    "Outcome": "agentic_gym.types",
    "ToolEnv": "agentic_gym.env",
    "Trajectory": "agentic_gym.types",
    "Turn": "agentic_gym.types",
    "check_env": "agentic_gym.checker",
    "make": "agentic_gym.registration",
    "register": "agentic_gym.registration",
    "tool": "agentic_gym.tools",
}

__all__ = [
    "Outcome",
    "ToolEnv",
    "Trajectory",
    "Turn",
    "check_env",
    "make",
    "register",
    "tool",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'agentic_gym' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
