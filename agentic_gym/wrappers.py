"""Budgets and reminders, as gymnasium wrappers.

A budget ends an episode through :meth:`ToolEnv.truncate`, so that the environment pays its last reward
and states the outcome; ``info`` then has ``outcome`` and ``truncation_reason``. Gymnasium's own
``TimeLimit`` only raises the flag. Wrappers stack in any order, and the first that is spent ends it.

They are options of :func:`agentic_gym.register` and :func:`agentic_gym.make` too.
"""

from __future__ import annotations

import abc
import math
import numbers
import time
from collections.abc import Callable
from typing import Any

import gymnasium
from gymnasium.utils import RecordConstructorArgs

from agentic_gym.env import clip_text
from agentic_gym.errors import ConfigError, EnvContractError
from agentic_gym.spaces import UnicodeText

_REMINDER = "Reminder of the task:\n"

StepResult = tuple[str, float, bool, bool, dict[str, Any]]
_Wrapper = gymnasium.Wrapper[str, str, str, str]


class _Budget(_Wrapper, RecordConstructorArgs, abc.ABC):
    """Ends the episode once :meth:`spent` gives a reason. Subclasses say what is counted."""

    def __init__(self, env: gymnasium.Env[str, str], **arguments: Any) -> None:
        RecordConstructorArgs.__init__(self, **arguments)
        super().__init__(env)
        if not env.has_wrapper_attr("truncate"):
            raise EnvContractError(
                f"{type(self).__name__} ends episodes through truncate(reason), which {env} does not "
                "have. Derive the environment from agentic_gym.ToolEnv"
            )

    @abc.abstractmethod
    def begin(self, observation: str) -> None:
        """Starts counting; called after each reset."""

    @abc.abstractmethod
    def spent(self, action: str, observation: str) -> str | None:
        """Counts one step; returns why the episode ends, or None."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Resets the environment and the count."""
        observation, info = self.env.reset(seed=seed, options=options)
        self.begin(observation)
        return observation, info

    def step(self, action: str) -> StepResult:
        """Steps the environment, and ends the episode if the budget is spent."""
        observation, paid, terminated, truncated, info = self.env.step(action)
        reward = float(paid)
        reason = self.spent(action, observation)
        if reason is not None and not (terminated or truncated):
            last_reward, facts = self.env.get_wrapper_attr("truncate")(reason)
            return observation, reward + last_reward, False, True, info | facts
        return observation, reward, terminated, truncated, info


class TurnLimit(_Budget):
    """Truncates after a number of steps.

    Args:
        env: a :class:`~agentic_gym.env.ToolEnv`, wrapped or not.
        max_turns: steps an episode.
    """

    def __init__(self, env: gymnasium.Env[str, str], max_turns: int) -> None:
        super().__init__(env, max_turns=_positive("max_turns", max_turns))
        self._max_turns = max_turns
        self._turns = 0

    def begin(self, observation: str) -> None:
        """Starts at 0."""
        self._turns = 0

    def spent(self, action: str, observation: str) -> str | None:
        """Counts steps."""
        self._turns += 1
        return f"turn limit of {self._max_turns}" if self._turns >= self._max_turns else None


class TokenBudget(_Budget):
    """Truncates after the step in which the conversation's text reaches a number of tokens.

    Counted are the task, actions and observations as text; what a chat template adds, and the schemas
    of the tools, are not.

    Args:
        env: a :class:`~agentic_gym.env.ToolEnv`, wrapped or not.
        max_tokens: tokens an episode.
        count: number of tokens of a text.
    """

    def __init__(
        self, env: gymnasium.Env[str, str], max_tokens: int, count: Callable[[str], int]
    ) -> None:
        super().__init__(env, max_tokens=_positive("max_tokens", max_tokens), count=count)
        self._max_tokens = max_tokens
        self._count = count
        self._tokens = 0

    def begin(self, observation: str) -> None:
        """Starts with the tokens of the task."""
        self._tokens = self._count(observation)

    def spent(self, action: str, observation: str) -> str | None:
        """Counts tokens."""
        self._tokens += self._count(action) + self._count(observation)
        return f"token budget of {self._max_tokens}" if self._tokens >= self._max_tokens else None


class TimeLimit(_Budget):
    """Truncates after the step in which an episode reaches a number of seconds since its reset.

    A step that hangs is not interrupted: tools bound their own time.

    Args:
        env: a :class:`~agentic_gym.env.ToolEnv`, wrapped or not.
        seconds: time an episode.
        clock: seconds since any fixed moment.
    """

    def __init__(
        self,
        env: gymnasium.Env[str, str],
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(env, seconds=_positive("seconds", seconds), clock=clock)
        self._seconds = seconds
        self._clock = clock
        self._start = 0.0

    def begin(self, observation: str) -> None:
        """Starts the clock."""
        self._start = self._clock()

    def spent(self, action: str, observation: str) -> str | None:
        """Reads the clock."""
        late = self._clock() - self._start >= self._seconds
        return f"time limit of {self._seconds:g} s" if late else None


class GoalReminder(_Wrapper, RecordConstructorArgs):
    """Re-states the task every so many turns or tokens: agents on long contexts drift from the request.

    The reminder is appended to the observation, and as a user message to ``info["messages"]``. The
    last observation of an episode gets none, unless a wrapper outside of this one ends it.

    Args:
        env: any environment of text.
        every_turns: steps between reminders.
        every_tokens: tokens (of actions and observations) between reminders; needs ``count``.
        count: number of tokens of a text.
        max_chars: a longer task is cut to its head and tail.
    """

    def __init__(
        self,
        env: gymnasium.Env[str, str],
        every_turns: int | None = None,
        every_tokens: int | None = None,
        count: Callable[[str], int] | None = None,
        max_chars: int = 4000,
    ) -> None:
        if every_turns is None and every_tokens is None:
            raise ConfigError("GoalReminder needs every_turns or every_tokens")
        if every_tokens is not None and count is None:
            raise ConfigError(
                "every_tokens needs count: a function from text to a number of tokens"
            )
        RecordConstructorArgs.__init__(
            self,
            every_turns=every_turns,
            every_tokens=every_tokens,
            count=count,
            max_chars=_positive("max_chars", max_chars),
        )
        super().__init__(env)
        self._every_turns = _positive(
            "every_turns", math.inf if every_turns is None else every_turns
        )
        self._every_tokens = _positive(
            "every_tokens", math.inf if every_tokens is None else every_tokens
        )
        self._count = count or len
        self._max_chars = max_chars
        self._reminder = ""
        self._turns = self._tokens = 0
        inner = env.observation_space
        if isinstance(inner, UnicodeText):
            room = inner.max_length + max_chars + len(_REMINDER) + 2
            self.observation_space = UnicodeText(room)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Resets the environment and remembers the task."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._reminder = _REMINDER + clip_text(observation, self._max_chars)
        self._turns = self._tokens = 0
        return observation, info

    def step(self, action: str) -> StepResult:
        """Steps the environment, and appends the reminder when it is due."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._turns += 1
        self._tokens += self._count(action) + self._count(observation)
        due = self._turns >= self._every_turns or self._tokens >= self._every_tokens
        if due and not (terminated or truncated):
            self._turns = self._tokens = 0
            observation = f"{observation}\n\n{self._reminder}"
            message = {"role": "user", "content": self._reminder}
            info = {**info, "messages": [*info.get("messages", ()), message]}
        return observation, float(reward), terminated, truncated, info


def _positive(name: str, value: Any) -> Any:
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not number or not value > 0:  # NaN is not above 0 either
        raise ConfigError(f"{name} must be a positive number, got {value!r}")
    return value
