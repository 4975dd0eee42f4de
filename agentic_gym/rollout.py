"""Rollout: launches in, trajectories out, many episodes at once.

Agents are coroutines on one event loop; environments are synchronous, and each lives in a thread of its
own, in which it is made, stepped and closed (some hold what only their thread may touch, an SQLite
connection for instance). Environments are reused from episode to episode.

What breaks ends one episode, never the others: an error of the machinery, or a call that does not come
back in time, makes that trajectory an ``infra_error`` and its environment is replaced. Only a
:class:`~agentic_gym.errors.UserError` stops the rollout, since every episode would meet it.

Rejected: gymnasium's vector environments. They step in lockstep: each turn would last as long as the
slowest sandbox.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import traceback
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeVar

from pydantic_core import to_jsonable_python

from agentic_gym.agent import Agent
from agentic_gym.env_thread import EnvFactory, EnvThread, Gate
from agentic_gym.errors import ConfigError, InfraError, UserError
from agentic_gym.types import Outcome, Trajectory, Turn

_T = TypeVar("_T")
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


async def run_episode(
    env: EnvThread,
    agent: Agent,
    launch: Launch,
    *,
    limit_s: float | None = None,
    clock: Clock = time.perf_counter,
) -> Trajectory:
    """Plays one episode.

    Args:
        env: to play in.
        agent: who acts; its ``end`` is called whatever happens.
        launch: what to play.
        limit_s: wall-clock budget. Once it is spent, the episode is truncated and graded as it is.
        clock: seconds, for the record and the budget.

    Returns:
        The record. Errors of the machinery are in it, as outcome ``infra_error``.

    Raises:
        UserError: the environment, agent or launch is wrong; another episode would not do better.
    """
    record = _Record(launch, clock)
    try:
        try:
            await _play(env, agent, launch, record, limit_s)
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
    env: EnvThread, agent: Agent, launch: Launch, record: _Record, limit_s: float | None
) -> None:
    observation, info = await env.reset(launch.seed, launch.options)
    record.begin(observation, info)
    await agent.begin(launch.trajectory_id, launch.seed, observation, info)
    while True:
        reason = "tokens"
        remaining = None if limit_s is None else limit_s - record.elapsed_s
        try:
            # Asked first: an agent that never waits is not interrupted by any timeout.
            if remaining is not None and remaining <= 0:
                raise TimeoutError
            async with asyncio.timeout(remaining):
                action = await agent.act()
        except TimeoutError:
            if remaining is None or limit_s is None or record.elapsed_s < limit_s:
                raise  # the agent's own
            action, reason = None, "time"
        if action is None:
            record.truncate(*await env.truncate(reason))
            return
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
                info=_facts(info),
            ),
            info,
        )
        if terminated or truncated:
            record.end(terminated=terminated, truncated=truncated, info=info)
            return
        agent.observe(observation, info)


class Rollout:
    """Plays many episodes at once.

    Args:
        env_factory: makes an environment.
        agent_factory: makes the agent of an episode.
        concurrency: episodes at once; each has an environment.
        step_threads: environments that compute at once, calls that were given up but still run
            included; None: all.
        episode_limit_s: wall-clock budget of an episode; then it is truncated.
        call_limit_s: budget of one environment call; then the episode is an ``infra_error``.
        clock: seconds.

    Use it as a context manager, or call :meth:`close`.
    """

    def __init__(
        self,
        env_factory: EnvFactory,
        agent_factory: Callable[[Launch], Agent],
        *,
        concurrency: int = 16,
        step_threads: int | None = None,
        episode_limit_s: float | None = 600.0,
        call_limit_s: float | None = 300.0,
        clock: Clock = time.perf_counter,
    ) -> None:
        if concurrency < 1 or (step_threads is not None and step_threads < 1):
            raise ConfigError(
                f"concurrency={concurrency} and step_threads={step_threads} must be positive"
            )
        self._env_factory = env_factory
        self._agent_factory = agent_factory
        self._concurrency = concurrency
        self._step_threads = step_threads
        self._episode_limit_s = episode_limit_s
        self._call_limit_s = call_limit_s
        self._clock = clock
        self._idle: list[EnvThread] = []
        self._gate: tuple[asyncio.AbstractEventLoop, Gate] | None = None
        self._runner: asyncio.Runner | None = None

    async def run(self, launches: Iterable[Launch]) -> AsyncGenerator[Trajectory]:
        """Plays launches as slots become free; yields each trajectory when it is finished.

        Closing the iterator, or cancelling its consumer, ends what is running: requests are aborted,
        environments given back or closed.
        """
        source = iter(launches)
        running: set[asyncio.Task[Trajectory]] = set()
        done: set[asyncio.Task[Trajectory]] = set()
        try:
            while True:
                while len(running) < self._concurrency:
                    launch = next(source, None)
                    if launch is None:
                        break
                    running.add(asyncio.create_task(self._episode(launch)))
                if not running:
                    return
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                while done:
                    yield done.pop().result()
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, *done, return_exceptions=True)

    def collect(
        self,
        launches: Iterable[Launch],
        *,
        progress: bool = True,
        description: str = "episodes",
    ) -> list[Trajectory]:
        """Plays launches and returns their trajectories in the order of the launches.

        Args:
            launches: what to play.
            progress: show a bar on standard error.
            description: beside the bar.
        """
        wanted = list(launches)
        found = self.call(self._gather(wanted, progress=progress, description=description))
        return [found[launch.trajectory_id] for launch in wanted]

    def call(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """Runs a coroutine on the loop that :meth:`collect` uses (to publish weights, for instance).

        Raises:
            ConfigError: another loop runs in this thread, as in a notebook.
        """
        with contextlib.suppress(RuntimeError):
            asyncio.get_running_loop()
            coroutine.close()
            raise ConfigError(
                "an event loop is running in this thread (a notebook?), which this call would block: "
                "write await asyncio.to_thread(…) around it, or iterate over Rollout.run"
            )
        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner.run(coroutine)

    def close(self) -> None:
        """Closes environments and loop; idempotent."""
        threads, self._idle = self._idle, []
        for thread in threads:
            thread.close()
        for thread in threads:
            thread.join(timeout_s=10.0)
        if self._runner is not None:
            self._runner.close()
            self._runner = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def _episode(self, launch: Launch) -> Trajectory:
        env = self._idle.pop() if self._idle else self._new_env()
        env.gate = self._current_gate()  # an idle one may come from an earlier loop
        try:
            return await run_episode(
                env,
                self._agent_factory(launch),
                launch,
                limit_s=self._episode_limit_s,
                clock=self._clock,
            )
        finally:
            if env.healthy:
                self._idle.append(env)
            else:
                env.close()

    def _new_env(self) -> EnvThread:
        return EnvThread(self._env_factory, limit_s=self._call_limit_s)

    def _current_gate(self) -> Gate | None:
        if self._step_threads is None:
            return None  # calls that hang then keep nobody out, however many there come to be
        loop = asyncio.get_running_loop()
        if self._gate is None or self._gate[0] is not loop:
            self._gate = loop, Gate(self._step_threads)
        return self._gate[1]

    async def _gather(
        self, launches: list[Launch], *, progress: bool, description: str
    ) -> dict[str, Trajectory]:
        from rich.console import Console
        from rich.progress import Progress

        found: dict[str, Trajectory] = {}
        solved = 0
        with Progress(console=Console(stderr=True), disable=not progress, transient=True) as bar:
            job = bar.add_task(description, total=len(launches))
            async with contextlib.aclosing(self.run(launches)) as trajectories:
                async for trajectory in trajectories:
                    found[trajectory.trajectory_id] = trajectory
                    solved += trajectory.outcome is Outcome.SOLVED
                    label = f"{description} · {solved} of {len(found)} solved"
                    bar.update(job, advance=1, description=label)
        return found


class _Record:
    """What is known of a running episode."""

    def __init__(self, launch: Launch, clock: Clock) -> None:
        self._launch = launch
        self._clock = clock
        self._began = clock()
        self._prompt = ""
        self._turns: list[Turn] = []
        self._tags: dict[str, str] = {}
        self._metrics: dict[str, float] = {}
        self._outcome = Outcome.INFRA_ERROR
        self._terminated = self._truncated = False
        self._error: str | None = None
        self.tokens: Any = None

    @property
    def elapsed_s(self) -> float:
        return self._clock() - self._began

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

    def trajectory(self) -> Trajectory:
        launch = self._launch
        times = {
            "duration_s": self.elapsed_s,
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
