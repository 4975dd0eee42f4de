"""The commands of this package, for the entry point group ``agentic_gym.commands``."""

from agentic_gym.envs.swe.eval_command import EVAL
from agentic_gym.envs.swe.task_commands import TASKS

__all__ = ["EVAL", "TASKS"]
