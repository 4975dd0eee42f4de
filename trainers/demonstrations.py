"""Demonstrations: episodes that a scripted policy played, as text, and then as token streams.

They are recorded as text so that a tokenizer can be made from them before anything is encoded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Protocol

import gymnasium
import numpy as np

from agentic_gym.chat import ChatCodec, Conversation
from agentic_gym.types import Completion, Message, Outcome, Slip, TokenStream


class DemonstratorPolicy(Protocol):
    """Who plays: told the task, then asked for one message after the other."""

    def reset(self, task: Any, seed: int) -> None:
        """Begins an episode. ``task`` is ``env.unwrapped.task``."""
        ...

    def act(self, observation: str, info: dict[str, Any]) -> str:
        """The next message; a :class:`~agentic_gym.types.Slip` if it is not to be imitated."""
        ...


@dataclass(frozen=True, slots=True)
class Demonstration:
    """One episode as text.

    Attributes:
        task_id: which task.
        opening: system and user messages of the first prompt.
        tools: OpenAI specifications of the tools.
        actions: what the demonstrator wrote, turn by turn.  # [K]
        answers: what the environment said to each action but the last.  # [K - 1]
        solved: whether the episode was graded as solved.
    """

    task_id: str
    opening: tuple[Message, ...]
    tools: tuple[dict[str, Any], ...]
    actions: tuple[str, ...]
    answers: tuple[tuple[Message, ...], ...]
    solved: bool

    def texts(self) -> Iterator[str]:
        """Everything that was read or written, for a tokenizer."""
        for message in (*self.opening, *(m for answer in self.answers for m in answer)):
            yield str(message["content"])
        yield from self.actions


def record(
    env: gymnasium.Env[str, str], policy: DemonstratorPolicy, task_id: str, seed: int
) -> Demonstration:
    """Plays one episode to its end."""
    observation, info = env.reset(seed=seed, options={"task_id": task_id})
    policy.reset(env.get_wrapper_attr("task"), seed)
    opening, tools = tuple(info["messages"]), tuple(info["tools"])
    actions: list[str] = []
    answers: list[tuple[Message, ...]] = []
    done = False
    while not done:
        actions.append(policy.act(observation, info))
        observation, _, terminated, truncated, info = env.step(actions[-1])
        done = terminated or truncated
        if not done:
            answers.append(tuple(info["messages"]))
    solved = info.get("outcome") == Outcome.SOLVED
    return Demonstration(task_id, opening, tools, tuple(actions), tuple(answers), solved)


def record_many(
    make_env: Callable[[], gymnasium.Env[str, str]],
    make_policy: Callable[[], DemonstratorPolicy],
    episodes: Sequence[tuple[str, int]],
    *,
    workers: int = 2,
    on_episode: Callable[[Demonstration], None] = lambda demonstration: None,
) -> list[Demonstration]:
    """Plays many episodes on ``workers`` environments; the order of the result is that of ``episodes``.

    Args:
        make_env: makes one environment for each worker.
        make_policy: makes one policy for each worker.
        episodes: task id and seed of each.
        workers: threads, each with its own environment.
        on_episode: called as each episode ends, in any order.
    """
    shares = [episodes[worker::workers] for worker in range(workers)]

    def play(share: Sequence[tuple[str, int]]) -> list[Demonstration]:
        if not share:
            return []
        env, policy = make_env(), make_policy()
        try:
            played = []
            for task_id, seed in share:
                played.append(record(env, policy, task_id, seed))
                on_episode(played[-1])
            return played
        finally:
            env.close()

    with ThreadPoolExecutor(workers) as pool:
        results = list(pool.map(play, shares))
    return [results[i % workers][i // workers] for i in range(len(episodes))]


def encode(
    codec: ChatCodec, demonstrations: Iterable[Demonstration], *, max_tokens: int
) -> list[TokenStream]:
    """Token streams whose ``sampled`` tokens are what the demonstrator wrote, but for its slips.

    Args:
        codec: of the model to be trained.
        demonstrations: recorded episodes.
        max_tokens: longer ones are left out whole: a cut prompt teaches what never happens.
    """
    streams = [_encode_one(codec, demonstration) for demonstration in demonstrations]
    return [stream for stream in streams if len(stream) <= max_tokens]


def _encode_one(codec: ChatCodec, demonstration: Demonstration) -> TokenStream:
    conversation = Conversation(codec)
    conversation.begin(demonstration.opening, demonstration.tools)
    for turn, action in enumerate(demonstration.actions):
        ids = codec.tokenizer.encode(action, add_special_tokens=False)
        ids = (*ids, codec.stop_token_ids[0])
        conversation.add_completion(Completion(ids, (0.0,) * len(ids), (0,) * len(ids), "stop"))
        if turn < len(demonstration.answers):
            conversation.add_observation(demonstration.answers[turn])
    stream = conversation.stream()
    slips = [turn for turn, text in enumerate(demonstration.actions) if isinstance(text, Slip)]
    sampled = stream.sampled & ~np.isin(stream.turns, slips)
    return replace(stream, sampled=sampled, versions=np.where(sampled, stream.versions, -1))
