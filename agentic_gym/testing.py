"""Small, public environments and an agent for tests of code that plays episodes.

They are real implementations, not mocks: all keep their contracts. The engine for such tests is
:class:`agentic_gym.engines.scripted.ScriptedEngine`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np

from agentic_gym.agent import AgentAction
from agentic_gym.engines.base import Engine
from agentic_gym.env import ToolEnv
from agentic_gym.errors import ConfigError, TaskError, ToolCallError
from agentic_gym.spaces import UnicodeText
from agentic_gym.tools import tool
from agentic_gym.types import Completion, Outcome, SamplingParams, TokenStream, Turn


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


class KeyEnv(gymnasium.Env[str, str]):
    """One early decision, then distraction, then the reward: where credit has to reach far.

    The first observation names a key, as a number; the first action must be it. ``distractions`` turns follow
    in which nothing matters, and then the episode is solved or not. All texts are token ids, for
    :class:`TokenAgent`.

    Args:
        keys: how many there are: the ids from 1 on; task ``key-3`` shows 3.
        distractions: turns after the decision.
    """

    def __init__(self, keys: int = 4, distractions: int = 8) -> None:
        if keys < 1 or distractions < 0:
            raise ConfigError(
                f"keys={keys} must be positive and distractions={distractions} at least 0"
            )
        self.observation_space = self.action_space = UnicodeText(max_length=1000)
        self._distractions = distractions
        self.tasks = tuple(f"key-{key}" for key in range(1, keys + 1))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Shows the key of ``options["task_id"]``, or one that the seed draws."""
        super().reset(seed=seed)
        task = (options or {}).get("task_id") or self.tasks[
            int(self.np_random.integers(len(self.tasks)))
        ]
        if task not in self.tasks:
            raise TaskError(f"no task {task!r}: there are {', '.join(self.tasks)}")
        self._key, self._turn, self._right = task.removeprefix("key-"), 0, False
        return self._key, {"task_id": task}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """The first action decides."""
        if self._turn == 0:
            self._right = action.split()[:1] == [self._key]
        self._turn += 1
        done = self._turn > self._distractions
        info = {"outcome": Outcome.SOLVED if self._right else Outcome.FAILED} if done else {}
        return "0", float(done and self._right), done, False, info


class TokenAgent:
    """Talks to an engine in token ids, without a tokenizer: its actions are the sampled ids, as text.

    Args:
        engine: that samples.
        prompt: ids of every first prompt.
        observation: ids that stand for every observation; None: observations are ids, as text, and the
            first of them follows the prompt.
        max_tokens: of a turn.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        prompt: Sequence[int] = (1, 2, 5),
        observation: Sequence[int] | None = (1, 2),
        max_tokens: int = 1,
    ) -> None:
        self._engine = engine
        self._observation = observation
        self._max_tokens = max_tokens
        # Of each token: id, log-probability, version and turn.
        self._tokens: list[tuple[int, float, int, int]] = [(i, 0.0, -1, -1) for i in prompt]

    async def begin(
        self, trajectory_id: str, seed: int, observation: str, info: Mapping[str, Any]
    ) -> None:
        """A new episode."""
        self._id, self._seed, self._turn = trajectory_id, seed, 0
        if self._observation is None:
            self._tokens += [(int(word), 0.0, -1, -1) for word in observation.split()]

    async def act(self) -> AgentAction:
        """Samples a turn."""
        completion = await self._engine.generate(
            [token for token, *_ in self._tokens],
            SamplingParams(self._max_tokens, seed=self._seed),
            request_id=f"{self._id}/{self._turn}",
            session_id=self._id,
        )
        return self._add(completion)

    async def recall(self, turn: Turn, completion: Completion | None) -> None:
        """Takes over what was sampled before."""
        if completion is not None:
            self._add(completion)

    def _add(self, completion: Completion) -> AgentAction:
        sampled = zip(
            completion.token_ids, completion.logprobs, completion.weight_versions, strict=True
        )
        self._tokens += [(*token, self._turn) for token in sampled]
        return AgentAction(" ".join(map(str, completion.token_ids)))

    def observe(self, observation: str, info: Mapping[str, Any]) -> None:
        """Adds the ids of an observation, or those that stand for it."""
        ids = self._observation
        ids = [int(word) for word in observation.split()] if ids is None else ids
        self._tokens += [(i, 0.0, -1, self._turn) for i in ids]
        self._turn += 1

    def stream(self) -> TokenStream:
        """The episode so far."""
        ids, logprobs, versions, turns = map(np.asarray, zip(*self._tokens, strict=True))
        return TokenStream(
            ids=ids.astype(np.int32),
            sampled=versions >= 0,
            logprobs=logprobs.astype(np.float32),
            versions=versions.astype(np.int32),
            turns=turns.astype(np.int32),
        )

    async def end(self) -> None:
        """Frees what the engine keeps of the episode."""
        await self._engine.release(self._id)
