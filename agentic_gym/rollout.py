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
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from typing import Any, Self, TypeVar

from agentic_gym.agent import Agent
from agentic_gym.env_thread import EnvFactory, EnvThread, Gate
from agentic_gym.episode import Clock, EpisodeWatch, Launch, run_episode
from agentic_gym.errors import ConfigError
from agentic_gym.types import Outcome, Trajectory

__all__ = ["Launch", "Rollout"]

_T = TypeVar("_T")


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
                    running.add(asyncio.create_task(self.play(launch)))
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
        on_finished: Callable[[Trajectory], object] = lambda trajectory: None,
    ) -> list[Trajectory]:
        """Plays launches and returns their trajectories in the order of the launches.

        Args:
            launches: what to play.
            progress: show a bar on standard error.
            description: beside the bar.
            on_finished: called with each trajectory as it is finished, to keep it in case the others never
                are.
        """
        wanted = list(launches)
        found = self.call(self._gather(wanted, on_finished, progress, description))
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

    async def play(self, launch: Launch, watch: EpisodeWatch | None = None) -> Trajectory:
        """Plays one episode, whatever else is running: whoever calls this bounds how many there are."""
        env = self._idle.pop() if self._idle else self._new_env()
        env.gate = self._current_gate()  # an idle one may come from an earlier loop
        try:
            return await run_episode(
                env,
                self._agent_factory(launch),
                launch,
                limit_s=self._episode_limit_s,
                clock=self._clock,
                watch=watch,
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
        self,
        launches: list[Launch],
        on_finished: Callable[[Trajectory], object],
        progress: bool,
        description: str,
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
                    on_finished(trajectory)
                    solved += trajectory.outcome is Outcome.SOLVED
                    label = f"{description} · {solved} of {len(found)} solved"
                    bar.update(job, advance=1, description=label)
        return found
