"""One episode: an agent plays in an environment, and a record is kept.

What breaks ends the episode as ``infra_error``; only a :class:`~agentic_gym.errors.UserError` goes on to the
caller, since every episode would meet it. An episode that the death of the process interrupted is carried on
from its recorded prefix: the environment is reset with the same seed and given the same actions, and
must answer the same (:class:`EpisodeWatch`).
"""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic_core import to_jsonable_python

from agentic_gym.agent import Agent, AgentAction
from agentic_gym.env_thread import EnvThread
from agentic_gym.errors import InfraError, UserError
from agentic_gym.types import Completion, Outcome, TokenStream, Trajectory, Turn

_NOT_FACTS = frozenset({"messages", "tools", "results", "tags", "metrics"})

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Launch:
    """An episode to be played.

    Attributes:
        trajectory_id: unique in the run.
        task_id: which task, for the record.
        group_id: trajectories of one task launched together share it.
        seed: of environment and sampling.
        options: for ``env.reset``, for instance ``{"task_id": …}``.
    """

    trajectory_id: str
    task_id: str
    group_id: str
    seed: int
    options: Mapping[str, Any] = field(default_factory=dict)


class EpisodeWatch:
    """What somebody who interrupts episodes and takes them up again has to do with one of them.

    This one lets it be; a runtime overrides what it needs.
    """

    def prefix(self) -> Trajectory | None:
        """What was played of the episode before a restart: it is played again, then carried on."""
        return None

    def paused_s(self) -> float:
        """Seconds that the episode has been kept waiting: no time of its own."""
        return 0.0

    def phase(self, name: str) -> None:
        """The episode now waits for this: "reset", "generate", "step" or "truncate"."""

    def turn(self, so_far: Callable[[], Trajectory]) -> None:
        """A turn is complete, and the episode goes on; ``so_far()`` is what there is of it."""


async def run_episode(
    env: EnvThread,
    agent: Agent,
    launch: Launch,
    *,
    limit_s: float | None = None,
    clock: Clock = time.perf_counter,
    watch: EpisodeWatch | None = None,
) -> Trajectory:
    """Plays one episode.

    Args:
        env: to play in.
        agent: who acts; its ``end`` is called whatever happens.
        launch: what to play.
        limit_s: wall-clock budget. Once it is spent, the episode is truncated and graded as it is.
        clock: seconds, for the record and the budget.
        watch: who interrupts the episode and carries it on.

    Returns:
        The record. Errors of the machinery are in it, as outcome ``infra_error``.

    Raises:
        UserError: the environment, agent or launch is wrong; another episode would not do better.
    """
    watch = watch or EpisodeWatch()
    record = _Record(launch, clock, watch.paused_s)
    try:
        try:
            await _play(env, agent, launch, record, limit_s, watch)
        finally:
            try:
                record.tokens = agent.stream()
            finally:
                await agent.end()
    except UserError:
        raise
    except Exception as error:
        record.fail(error)
    return record.trajectory()


async def _play(
    env: EnvThread,
    agent: Agent,
    launch: Launch,
    record: _Record,
    limit_s: float | None,
    watch: EpisodeWatch,
) -> None:
    watch.phase("reset")
    observation, info = await env.reset(launch.seed, launch.options)
    record.begin(observation, info)
    await agent.begin(launch.trajectory_id, launch.seed, observation, info)
    prefix = watch.prefix()
    if prefix is not None:
        await _recall(env, agent, prefix, record)
    while True:
        watch.phase("generate")
        turn_began = record.wall_s
        action, reason = await _act(agent, record, limit_s)
        if action is None:
            watch.phase("truncate")
            record.truncate(*await env.truncate(reason))
            return
        watch.phase("step")
        began = record.elapsed_s
        observation, reward, terminated, truncated, info = await env.step(action.text)
        record.add(
            Turn(
                action=action.text,
                observation=observation,
                reward=reward,
                finish_reason=action.finish_reason,
                generate_s=action.generate_s,
                step_s=record.elapsed_s - began,
                began_s=turn_began,
                info=_facts(info),
            ),
            info,
        )
        if terminated or truncated:
            record.end(terminated=terminated, truncated=truncated, info=info)
            return
        agent.observe(observation, info)
        watch.turn(lambda: record.so_far(agent.stream()))


async def _act(
    agent: Agent, record: _Record, limit_s: float | None
) -> tuple[AgentAction | None, str]:
    """The agent's action, or None and the budget that is spent."""
    if limit_s is None:
        return await agent.act(), "tokens"
    # Asked first: an agent that never waits is not interrupted by any timeout.
    if record.elapsed_s >= limit_s:
        return None, "time"
    acting = asyncio.ensure_future(agent.act())
    try:
        # Again and again, since time that the episode is kept waiting is not its own.
        while record.elapsed_s < limit_s:
            await asyncio.wait({acting}, timeout=limit_s - record.elapsed_s)
            if acting.done():
                return acting.result(), "tokens"
    finally:
        if not acting.done():
            acting.cancel()
            await asyncio.wait({acting})
    if not acting.cancelled():
        acting.exception()  # too late to matter; looked at, so that nobody warns of it
    return None, "time"


async def _recall(env: EnvThread, agent: Agent, prefix: Trajectory, record: _Record) -> None:
    """Plays again what was played before a restart, up to the same state of agent and environment.

    Raises:
        InfraError: the environment answers otherwise than it did.
    """
    for number, turn in enumerate(prefix.turns):
        await agent.recall(turn, sampled_in(prefix, number))
        observation, reward, terminated, truncated, info = await env.step(turn.action)
        if (observation, reward) != (turn.observation, turn.reward) or terminated or truncated:
            raise InfraError(
                f"turn {number} of {prefix.trajectory_id!r} was played again after a restart and went "
                f"otherwise: {observation[:200]!r} instead of {turn.observation[:200]!r}. The episode "
                "starts anew; an environment whose answers depend on more than seed and actions cannot "
                "be carried on"
            )
        record.add(turn, info)
        agent.observe(observation, info)


def sampled_in(trajectory: Trajectory, turn: int) -> Completion | None:
    """What the policy sampled in a turn; None for agents that are not token models."""
    stream = trajectory.tokens
    if stream is None:
        return None
    own = stream.sampled & (stream.turns == turn)
    return Completion(
        tuple(stream.ids[own].tolist()),
        tuple(stream.logprobs[own].tolist()),
        tuple(stream.versions[own].tolist()),
        trajectory.turns[turn].finish_reason,
    )


class _Record:
    """What is known of a running episode."""

    def __init__(self, launch: Launch, clock: Clock, paused_s: Callable[[], float]) -> None:
        self._launch = launch
        self._clock = clock
        self._paused_s = paused_s
        self._began = clock()
        self._began_at = time.time()
        self._prompt = ""
        self._turns: list[Turn] = []
        self._tags: dict[str, str] = {}
        self._metrics: dict[str, float] = {}
        self._outcome = Outcome.INFRA_ERROR
        self._terminated = self._truncated = False
        self._error: str | None = None
        self.tokens: TokenStream | None = None

    @property
    def wall_s(self) -> float:
        """Seconds since the episode began."""
        return self._clock() - self._began

    @property
    def elapsed_s(self) -> float:
        """Of these, its own: those in which it was kept waiting do not count."""
        return self.wall_s - self._paused_s()

    def begin(self, observation: str, info: Mapping[str, Any]) -> None:
        self._prompt = observation
        self._note(info)

    def add(self, turn: Turn, info: Mapping[str, Any]) -> None:
        self._turns.append(turn)
        self._note(info)

    def end(self, *, terminated: bool, truncated: bool, info: Mapping[str, Any]) -> None:
        self._terminated, self._truncated = terminated, truncated
        default = Outcome.TRUNCATED
        if terminated:
            paid = sum(turn.reward for turn in self._turns)
            default = Outcome.SOLVED if paid > 0 else Outcome.FAILED
        self._outcome = Outcome(info.get("outcome", default))

    def truncate(self, reward: float, info: Mapping[str, Any]) -> None:
        if self._turns:  # the last reward belongs to the last turn
            last = self._turns[-1]
            facts = {**last.info, **_facts(info)}
            self._turns[-1] = replace(last, reward=last.reward + float(reward), info=facts)
        self._note(info)
        self.end(terminated=False, truncated=True, info=info)

    def fail(self, error: BaseException) -> None:
        self._outcome, self._terminated, self._truncated = Outcome.INFRA_ERROR, False, False
        text = f"{type(error).__name__}: {error}"
        if not isinstance(error, InfraError):  # a bug somewhere: say where
            text = "".join(traceback.format_exception(error, limit=-4))
        self._error = text

    def so_far(self, tokens: TokenStream | None) -> Trajectory:
        """What there is of a running episode."""
        return replace(self.trajectory(), tokens=tokens, outcome=Outcome.TRUNCATED)

    def trajectory(self) -> Trajectory:
        launch = self._launch
        times = {
            "began_at": self._began_at,
            "duration_s": self.elapsed_s,
            "paused_s": self._paused_s(),
            "generate_s": sum(turn.generate_s for turn in self._turns),
            "step_s": sum(turn.step_s for turn in self._turns),
        }
        return Trajectory(
            trajectory_id=launch.trajectory_id,
            task_id=launch.task_id,
            group_id=launch.group_id,
            seed=launch.seed,
            prompt=self._prompt,
            turns=tuple(self._turns),
            tokens=self.tokens,
            outcome=self._outcome,
            terminated=self._terminated,
            truncated=self._truncated,
            error=self._error,
            tags=self._tags,
            metrics={**times, **self._metrics},
        )

    def _note(self, info: Mapping[str, Any]) -> None:
        self._tags.update({k: str(v) for k, v in (info.get("tags") or {}).items()})
        self._metrics.update({k: float(v) for k, v in (info.get("metrics") or {}).items()})


def _facts(info: Mapping[str, Any]) -> dict[str, Any]:
    """What of ``info`` belongs into the record, as JSON; with the names of the tools that were called."""
    facts: dict[str, Any] = {}
    results = info.get("results")
    if results:
        facts["tools"] = [result.name for result in results]
    for key, value in info.items():
        if key not in _NOT_FACTS:
            facts[key] = to_jsonable_python(value, fallback=str)
    return facts
