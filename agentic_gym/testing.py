"""Small, public environments for tests of code that plays episodes.

They are real implementations, not mocks: both keep the contract. The engine for such tests is
:class:`agentic_gym.engines.scripted.ScriptedEngine`.
"""

from __future__ import annotations

from typing import Any

from agentic_gym.env import ToolEnv
from agentic_gym.errors import ToolCallError
from agentic_gym.tools import tool
from agentic_gym.types import Outcome


class EchoEnv(ToolEnv):
    """Answers what it is told, until ``stop`` is called: solved if something was echoed.

    Args:
        task: the first observation.
        step_reward: reward of every step before the last, which earns 1 if solved.
    """

    def __init__(self, task: str = "Echo something, then stop.", step_reward: float = 0.0) -> None:
        self._task = task
        self._step_reward = step_reward

    def start(self, options: dict[str, Any]) -> str:
        """Nothing was echoed yet."""
        self._echoed = 0
        self._stopped = False
        return self._task

    @tool
    def echo(self, text: str) -> str:
        """Repeats a text.

        Args:
            text: what to repeat.
        """
        self._echoed += 1
        return text

    @tool
    def stop(self) -> str:
        """Ends the episode."""
        self._stopped = True
        self.finish(Outcome.SOLVED if self._echoed else Outcome.FAILED)
        return "stopped"

    def reward(self) -> float:
        """1 at a solved end."""
        return float(self._echoed > 0) if self._stopped else self._step_reward


class GuessEnv(ToolEnv):
    """Guess a number from 1 to ``limit``; each answer says higher or lower.

    Args:
        limit: largest number.
    """

    system_prompt = "You play number games by calling tools."

    def __init__(self, limit: int = 100) -> None:
        self._limit = limit

    def start(self, options: dict[str, Any]) -> str:
        """Draws the number, or takes ``options["number"]``."""
        drawn = int(self.np_random.integers(1, self._limit + 1))
        self._number = int(options.get("number", drawn))
        self._found = False
        return f"Find the number between 1 and {self._limit}."

    @tool
    def guess(self, number: int) -> str:
        """Tries a number.

        Args:
            number: your guess.
        """
        if not 1 <= number <= self._limit:
            raise ToolCallError(f"The number must be between 1 and {self._limit}")
        self._found = number == self._number
        if self._found:
            self.finish()
            return "correct"
        return "higher" if number < self._number else "lower"

    def reward(self) -> float:
        """1 for the number."""
        return float(self._found)
