"""Agents: who acts in an episode.

One agent object plays one episode. :class:`LMAgent` is a served language model with its conversation as a
token stream; :class:`PolicyAgent` wraps any object or function that answers an observation with an action
(scripted baselines, gold patches, a person).
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from agentic_gym.chat import ChatCodec, Conversation
from agentic_gym.engines.base import Engine, joined
from agentic_gym.errors import ConfigError, EngineError
from agentic_gym.types import Completion, FinishReason, SamplingParams, TokenStream, Turn

_MAX_RESUMPTIONS = 64


@dataclass(frozen=True, slots=True)
class AgentAction:
    """One move.

    Attributes:
        text: the action, for ``env.step``.
        finish_reason: of the completion; "stop" for agents that are not token models.
        generate_s: seconds that it took.
        num_tokens: tokens sampled.
    """

    text: str
    finish_reason: FinishReason = "stop"
    generate_s: float = 0.0
    num_tokens: int = 0


class Agent(Protocol):
    """What the rollout asks of an agent; :meth:`end` is always called, once."""

    async def begin(
        self, trajectory_id: str, seed: int, observation: str, info: Mapping[str, Any]
    ) -> None:
        """A new episode: what ``env.reset`` gave (``info`` has ``messages`` and ``tools``)."""
        ...

    async def act(self) -> AgentAction | None:
        """The next action, or None if the agent's token budget is spent."""
        ...

    async def recall(self, turn: Turn, completion: Completion | None) -> None:
        """A turn of this very episode, played before the process was killed: as :meth:`act`, but given.

        Args:
            turn: as it was recorded.
            completion: what was sampled in it, for agents that are token models.
        """
        ...

    def observe(self, observation: str, info: Mapping[str, Any]) -> None:
        """What ``env.step`` answered (``info`` has ``messages``); not told of the last step."""
        ...

    def stream(self) -> TokenStream | None:
        """The episode's tokens, for agents that are token models."""
        ...

    async def end(self) -> None:
        """The episode is over, for whatever reason: free what it holds."""
        ...


class LMAgent:
    """A language model in an engine.

    A completion that the engine aborts (a publish with mode "abort") is carried on from what was sampled,
    under the weights of then: versions are kept per token.

    Args:
        engine: that serves the policy.
        codec: of the model's family.
        sampling: of each completion; its seed is replaced by the episode's, its stop tokens joined
            with the codec's.
        max_tokens_per_episode: most tokens of the stream, prompt and observations included.
    """

    def __init__(
        self,
        engine: Engine,
        codec: ChatCodec,
        sampling: SamplingParams,
        *,
        max_tokens_per_episode: int,
    ) -> None:
        if max_tokens_per_episode < 1:
            raise ConfigError(f"max_tokens_per_episode={max_tokens_per_episode} must be positive")
        self._engine = engine
        self._codec = codec
        self._sampling = sampling
        self._limit = max_tokens_per_episode
        self._conversation = Conversation(codec)
        self._id = ""
        self._seed = 0
        self._turn = 0

    async def begin(
        self, trajectory_id: str, seed: int, observation: str, info: Mapping[str, Any]
    ) -> None:
        """Renders the first prompt.

        Raises:
            ChatError: it cannot be rendered.
        """
        self._id, self._seed = trajectory_id, seed
        messages = info.get("messages") or [{"role": "user", "content": observation}]
        self._conversation.begin(messages, info.get("tools") or ())

    async def act(self) -> AgentAction | None:
        """Samples a completion; None if no token more fits.

        Raises:
            EngineError: generation failed.
        """
        began = time.perf_counter()
        completion = await self._complete()
        if completion is None:
            return None
        self._turn += 1
        text = self._conversation.add_completion(completion)
        seconds = time.perf_counter() - began
        return AgentAction(text, completion.finish_reason, seconds, len(completion.token_ids))

    async def recall(self, turn: Turn, completion: Completion | None) -> None:
        """Appends what was sampled then, with the versions that sampled it.

        Raises:
            EngineError: it reads otherwise than it did: another tokenizer.
        """
        if completion is None:
            raise EngineError(f"{self._id!r} was recorded without tokens: it cannot be carried on")
        self._turn += 1
        if self._conversation.add_completion(completion) != turn.action:
            raise EngineError(
                f"the tokens of {self._id!r} read otherwise than when they were recorded: was the "
                "tokenizer changed?"
            )

    def observe(self, observation: str, info: Mapping[str, Any]) -> None:
        """Extends the prompt by the environment's messages.

        Raises:
            ChatError: the model's family has no exact extension.
        """
        messages = info.get("messages") or [{"role": "user", "content": observation}]
        self._conversation.add_observation(messages)

    def stream(self) -> TokenStream:
        """The tokens so far, at most the limit: what is cut off was never sampled."""
        whole = self._conversation.stream()
        if len(whole) <= self._limit:
            return whole
        names = [field.name for field in dataclasses.fields(TokenStream)]
        return TokenStream(**{name: getattr(whole, name)[: self._limit] for name in names})

    async def end(self) -> None:
        """Lets the engine forget the episode."""
        await self._engine.release(self._id)

    async def _complete(self) -> Completion | None:
        prompt = self._conversation.prompt_ids
        stop = tuple({*self._sampling.stop_token_ids, *self._codec.stop_token_ids})
        most = min(self._sampling.max_tokens, self._limit - len(prompt))
        parts: list[Completion] = []
        for attempt in range(_MAX_RESUMPTIONS):
            done = [token for part in parts for token in part.token_ids]
            if len(done) >= most:
                break
            sampling = dataclasses.replace(
                self._sampling, max_tokens=most - len(done), seed=self._seed, stop_token_ids=stop
            )
            part = await self._engine.generate(
                prompt + done,
                sampling,
                request_id=f"{self._id}/{self._turn}/{attempt}",
                session_id=self._id,
            )
            parts.append(part)
            if part.finish_reason != "abort":
                break
        return joined(parts, parts[-1].finish_reason) if parts else None


class PolicyAgent:
    """Any policy as an agent: ``act(observation, info) -> action`` text, or a function of the same.

    Args:
        policy: a function, or an object with ``act`` and perhaps ``reset(task, seed)``. ``act`` may be a
            coroutine function.
        task: what ``reset`` is told; None: the first observation.
    """

    def __init__(self, policy: Any, *, task: Any = None) -> None:
        act = getattr(policy, "act", policy)
        if not callable(act):
            raise ConfigError(
                f"a policy is a function or has act(observation, info); got {type(policy).__name__}"
            )
        self._policy = policy
        self._act: Callable[[str, Mapping[str, Any]], Any] = act
        self._task = task
        self._observation = ""
        self._info: Mapping[str, Any] = {}

    async def begin(
        self, trajectory_id: str, seed: int, observation: str, info: Mapping[str, Any]
    ) -> None:
        """Resets the policy."""
        self._observation, self._info = observation, info
        reset = getattr(self._policy, "reset", None)
        if reset is not None:
            reset(observation if self._task is None else self._task, seed)

    async def act(self) -> AgentAction:
        """Asks the policy."""
        began = time.perf_counter()
        text = self._act(self._observation, self._info)
        if inspect.isawaitable(text):
            text = await text
        return AgentAction(text, generate_s=time.perf_counter() - began)

    async def recall(self, turn: Turn, completion: Completion | None) -> None:
        """Lets the policy act, for its own memory; the recorded action counts."""
        await self.act()

    def observe(self, observation: str, info: Mapping[str, Any]) -> None:
        """Keeps what the next action answers."""
        self._observation, self._info = observation, info

    def stream(self) -> None:
        """A policy has no tokens."""

    async def end(self) -> None:
        """Nothing is held."""


class ChatServer(Protocol):
    """What :class:`ChatAgent` asks of a server; :class:`agentic_gym.engines.openai.OpenAIChat` is one."""

    async def complete(
        self, messages: list[Mapping[str, Any]], tools: list[Mapping[str, Any]], *, seed: int
    ) -> tuple[Mapping[str, Any], FinishReason, int] | None:
        """The assistant's message, why it ended, and how many tokens it has; None if no token more fits."""
        ...


class ChatAgent:
    """A model behind a chat server: messages in, messages out, for evaluation only.

    Args:
        server: that completes conversations.
        max_tokens_per_episode: most completion tokens of an episode, as the server counts them.
    """

    def __init__(self, server: ChatServer, *, max_tokens_per_episode: int | None = None) -> None:
        self._server = server
        self._limit = max_tokens_per_episode
        self._spent = 0
        self._messages: list[Mapping[str, Any]] = []
        self._tools: list[Mapping[str, Any]] = []
        self._calls: list[Mapping[str, Any]] = []
        self._seed = 0

    async def begin(
        self, trajectory_id: str, seed: int, observation: str, info: Mapping[str, Any]
    ) -> None:
        """Takes over the first messages and the tools."""
        self._seed = seed
        self._messages = list(info.get("messages") or [{"role": "user", "content": observation}])
        self._tools = list(info.get("tools") or ())

    async def act(self) -> AgentAction | None:
        """Asks the server; None also if the conversation no longer fits the model.

        Raises:
            EngineError: it does not answer.
            ConfigError: it refuses the request.
        """
        if self._limit is not None and self._spent >= self._limit:
            return None
        began = time.perf_counter()
        answer = await self._server.complete(self._messages, self._tools, seed=self._seed)
        if answer is None:
            return None
        message, reason, count = answer
        self._spent += count
        self._messages.append(message)
        self._calls = list(message.get("tool_calls") or ())
        return AgentAction(_action_text(message), reason, time.perf_counter() - began, count)

    async def recall(self, turn: Turn, completion: Completion | None) -> None:
        """Appends the message as text; the ids of its calls are not recorded."""
        self._calls = []
        self._messages.append({"role": "assistant", "content": turn.action})

    def observe(self, observation: str, info: Mapping[str, Any]) -> None:
        """Appends the environment's messages; answers to calls get the ids that the server gave them.

        A call that the model wrote as text has no id there, and servers refuse a tool's answer to no call:
        it is told as a user's message.
        """
        answers = list(info.get("messages") or [{"role": "user", "content": observation}])
        ids = iter([call.get("id") for call in self._calls])
        for answer in answers:
            if answer.get("role") == "tool":
                call_id = next(ids, None)
                answer = (
                    {"role": "user", "content": answer["content"]}
                    if call_id is None
                    else {**answer, "tool_call_id": call_id}
                )
            self._messages.append(answer)

    def stream(self) -> None:
        """The server does not say what was sampled."""

    async def end(self) -> None:
        """Nothing is held."""


def _action_text(message: Mapping[str, Any]) -> str:
    """An assistant's message in Hermes form."""
    parts = [message["content"]] if isinstance(message.get("content"), str) else []
    for call in message.get("tool_calls") or ():
        function = call.get("function") or {}
        arguments = function.get("arguments")
        written = arguments if isinstance(arguments, str) else json.dumps(arguments)
        name = json.dumps(function.get("name") or "")
        parts.append(
            f'<tool_call>\n{{"name": {name}, "arguments": {written or "{}"}}}\n</tool_call>'
        )
    return "\n".join(part for part in parts if part)
