"""A synchronous environment in a thread of its own, called from coroutines.

Every call of one environment, also the one that makes it, happens in the same thread: some hold what only
their thread may touch (an SQLite connection, for instance). The thread is a daemon, so that a call
that never comes back keeps neither the rollout nor the process.

Rejected: a shared pool of threads. A stuck call would take a worker away for good, and an
environment would wander from thread to thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import gymnasium

from agentic_gym.errors import InfraError

_T = TypeVar("_T")

EnvFactory = Callable[[], gymnasium.Env[Any, Any]]


class Gate:
    """Bounds how many environments compute at once; of one event loop.

    A call that was given up keeps its place until its thread has really come back: it still computes.

    Args:
        places: how many.
    """

    def __init__(self, places: int) -> None:
        self._places = places
        self._free = asyncio.Semaphore(places)
        self.num_given_up = 0  # places held by calls that nobody waits for

    async def enter(self, patience_s: float | None) -> None:
        """Waits for a place.

        Raises:
            InfraError: for ``patience_s``, every place was held by a call that was given up.
        """
        waiting = asyncio.ensure_future(self._free.acquire())
        try:
            while not (await asyncio.wait({waiting}, timeout=patience_s))[0]:
                if self.num_given_up >= self._places:
                    raise InfraError(
                        f"environment calls that were given up but never came back hold all "
                        f"{self._places} step_threads: end what they wait for, or raise step_threads"
                    )
        except BaseException:
            if not waiting.cancel():  # it has the place already
                self._free.release()
            raise

    def leave(self) -> None:
        """Frees a place."""
        self._free.release()


class EnvThread:
    """An environment in a thread of its own.

    Args:
        factory: makes it, in that thread, at the first call.
        limit_s: seconds after which a call is given up.

    Attributes:
        gate: shared by many environments. None: no bound.
        healthy: the last call has come back well; otherwise the environment is lost.
    """

    def __init__(
        self,
        factory: EnvFactory,
        *,
        limit_s: float | None = None,
    ) -> None:
        self._factory = factory
        self.gate: Gate | None = None
        self._limit_s = limit_s
        self._env: gymnasium.Env[Any, Any] | None = None
        self._queue: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="env", daemon=True)
        self._thread.start()
        self.healthy = True

    async def reset(self, seed: int, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """``env.reset``; likewise the others.

        Raises:
            InfraError: the call did not come back in time. The environment is lost (``healthy`` is
                False, as after any error).
        """
        return await self._call(lambda env: env.reset(seed=seed, options=dict(options)))

    async def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """``env.step``."""
        answer = await self._call(lambda env: env.step(action))
        observation, reward, terminated, truncated, info = answer
        return observation, float(reward), bool(terminated), bool(truncated), info

    async def truncate(self, reason: str) -> tuple[float, dict[str, Any]]:
        """Ends the episode by a budget; an environment without ``truncate`` gets no last reward."""

        def call(env: gymnasium.Env[Any, Any]) -> tuple[float, dict[str, Any]]:
            truncate = getattr(env.unwrapped, "truncate", None)
            return truncate(reason) if truncate is not None else (0.0, {})

        return await self._call(call)

    def close(self) -> None:
        """Closes the environment once the running call has come back; does not wait."""
        self.healthy = False
        self._queue.put(None)

    def join(self, timeout_s: float) -> None:
        """Waits until it is closed."""
        self._thread.join(timeout_s)

    async def _call(self, function: Callable[[gymnasium.Env[Any, Any]], _T]) -> _T:
        healthy, self.healthy = self.healthy, False  # until it has come back well
        if not healthy:
            raise InfraError("this environment was given up after an error")
        gate = self.gate
        if gate is not None:
            await gate.enter(self._limit_s)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_T] = loop.create_future()

        def end(result: Any, error: BaseException | None) -> None:
            if gate is not None:
                gate.num_given_up -= future.done()
                gate.leave()
            _resolve(future, result, error)

        def work() -> None:
            try:
                if self._env is None:
                    self._env = self._factory()
                result, error = function(self._env), None
            except BaseException as raised:
                result, error = None, _carried(raised)
            with contextlib.suppress(RuntimeError):  # the loop may be closed by now
                loop.call_soon_threadsafe(end, result, error)

        self._queue.put(work)
        try:
            async with asyncio.timeout(self._limit_s):
                answer = await future
        except TimeoutError:
            if not future.cancelled():  # the environment's own error
                raise
            raise InfraError(
                f"the environment did not come back within {self._limit_s} s; it was replaced"
            ) from None
        finally:
            if gate is not None:
                gate.num_given_up += future.cancelled()
        self.healthy = True
        return answer

    def _run(self) -> None:
        while (work := self._queue.get()) is not None:
            work()
        if self._env is not None:
            with contextlib.suppress(Exception):  # it is being thrown away
                self._env.close()


def _carried(raised: BaseException) -> BaseException:
    """An error that a coroutine can raise, and that ends nothing but its episode.

    A future takes no StopIteration, and what is no Exception (``sys.exit()`` in a tool) would end the loop.
    """
    if isinstance(raised, Exception) and not isinstance(raised, StopIteration):
        return raised
    error = InfraError(f"the environment raised {raised!r}")
    error.__cause__ = raised
    return error


def _resolve(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
