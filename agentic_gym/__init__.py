"""agentic-gym: train and evaluate software-engineering agents.

Names load lazily: importing this package loads neither torch nor transformers nor docker, and not
gymnasium either. Once that is imported, by whomever, the environments of this package and of installed
plugins are known to it, so that ``gymnasium.make("agentic_gym/SWE-v0")`` works.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
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


class _AfterGymnasium:
    """Import hook: registers environments as soon as gymnasium (0.2 s) is imported, and not before."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> Any:
        if fullname != "gymnasium":
            return None
        sys.meta_path.remove(self)
        spec: ModuleSpec | None = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_and_register(module: ModuleType) -> None:
                run(module)
                importlib.import_module("agentic_gym.registration")

            spec.loader.exec_module = run_and_register  # type: ignore[method-assign]
        return spec


if "gymnasium" in sys.modules:
    importlib.import_module("agentic_gym.registration")
else:
    sys.meta_path.insert(0, _AfterGymnasium())
