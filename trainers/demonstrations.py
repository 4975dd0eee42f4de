"""Demonstrations: episodes that a scripted policy played, as text, and then as token streams.

They are recorded as text so that a tokenizer can be made from them before anything is encoded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import gymnasium
import numpy as np

from agentic_gym.chat import ChatCodec, Conversation
from agentic_gym.types import Completion, Message, Outcome, Slip, TokenStream

_Job = TypeVar("_Job")
_Done = TypeVar("_Done")


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
    env: gymnasium.Env[str, str],
    policy: DemonstratorPolicy,
    task_id: str,
    seed: int,
    *,
    spare_refused: bool = False,
) -> Demonstration:
    """Plays one episode to its end.

    Args:
        env: to play in.
        policy: who plays.
        task_id: which task.
        seed: of environment and policy.
        spare_refused: record messages that went wrong (:func:`refused`) as slips: for a policy that does not
            know its own.
    """
    observation, info = env.reset(seed=seed, options={"task_id": task_id})
    policy.reset(env.get_wrapper_attr("task"), seed)
    opening, tools = tuple(info["messages"]), tuple(info["tools"])
    actions: list[str] = []
    answers: list[tuple[Message, ...]] = []
    done = False
    while not done:
        action = policy.act(observation, info)
        observation, _, terminated, truncated, info = env.step(action)
        actions.append(Slip(action) if spare_refused and refused(info) else action)
        done = terminated or truncated
        if not done:
            answers.append(tuple(info["messages"]))
    solved = info.get("outcome") == Outcome.SOLVED
    return Demonstration(task_id, opening, tools, tuple(actions), tuple(answers), solved)


def refused(info: Mapping[str, Any]) -> bool:
    """Whether a step's message held no call that could be read, or one that was refused.

    A call that is right in form and would change nothing is not refused. False where ``info`` has no results.
    """
    results = info.get("results")
    if results is None:
        return False
    return not results or any(result.is_error and not result.idle for result in results)


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

    def play(share: Sequence[tuple[str, int]]) -> list[Demonstration]:
        env, policy = make_env(), make_policy()
        try:
            played = []
            for task_id, seed in share:
                played.append(record(env, policy, task_id, seed))
                on_episode(played[-1])
            return played
        finally:
            env.close()

    return in_shares(episodes, play, workers)


def in_shares(
    jobs: Sequence[_Job], work: Callable[[Sequence[_Job]], list[_Done]], workers: int
) -> list[_Done]:
    """Does jobs in ``workers`` threads, each of which gets a share of them; results in the jobs' order.

    Args:
        jobs: what is to be done.
        work: does some of them, in order; one result each.
        workers: threads.
    """
    shares = [jobs[worker::workers] for worker in range(workers)]
    with ThreadPoolExecutor(workers) as pool:
        results = list(pool.map(lambda share: work(share) if share else [], shares))
    return [results[i % workers][i // workers] for i in range(len(jobs))]


def encode(
    codec: ChatCodec, demonstrations: Iterable[Demonstration], *, max_tokens: int
) -> list[TokenStream]:
    """Token streams whose ``sampled`` tokens are what the demonstrator wrote, but for its slips.

    Args:
        codec: of the model to be trained.
        demonstrations: recorded episodes.
        max_tokens: longer ones are left out whole: a cut prompt teaches what never happens. So are those in
            which an action spells a token that would have ended its turn (another model may have sampled it).
    """
    streams = [_encode_one(codec, demonstration) for demonstration in demonstrations]
    return [stream for stream in streams if stream is not None and len(stream) <= max_tokens]


def _encode_one(codec: ChatCodec, demonstration: Demonstration) -> TokenStream | None:
    conversation = Conversation(codec)
    conversation.begin(demonstration.opening, demonstration.tools)
    for turn, action in enumerate(demonstration.actions):
        ids = codec.tokenizer.encode(action, add_special_tokens=False)
        if not set(ids).isdisjoint(codec.stop_token_ids):
            return None
        ids = (*ids, codec.stop_token_ids[0])
        conversation.add_completion(Completion(ids, (0.0,) * len(ids), (0,) * len(ids), "stop"))
        if turn < len(demonstration.answers):
            conversation.add_observation(demonstration.answers[turn])
    stream = conversation.stream()
    slips = [turn for turn, text in enumerate(demonstration.actions) if isinstance(text, Slip)]
    sampled = stream.sampled & ~np.isin(stream.turns, slips)
    return replace(stream, sampled=sampled, versions=np.where(sampled, stream.versions, -1))
