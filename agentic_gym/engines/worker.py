"""A thread that owns what must not be touched from two: it steps, and takes commands between two steps.

Whatever happens to the thread, every command that was given is carried out or refused: nobody waits for
ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from agentic_gym.errors import EngineError

Command = Callable[[], None]


class Worker:
    """The worker thread of an engine, started with the first command.

    Args:
        ready: there is something to compute.
        step: computes a little of it; what it raises kills the worker.
        end: the thread has ended. Called with the error of :meth:`gone`, or None for those who are simply
            told to stop; once more for whoever came too late, always with an error.
        within: the context in which everything above runs.
    """

    def __init__(
        self,
        *,
        ready: Callable[[], bool],
        step: Command,
        end: Callable[[EngineError | None], None],
        within: Callable[[], AbstractContextManager[Any]],
    ) -> None:
        self._ready = ready
        self._step = step
        self._end = end
        self._within = within
        self._commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False
        self._death: BaseException | None = None

    @property
    def alive(self) -> bool:
        """It takes commands."""
        return self._death is None and not self._closed

    def tell(self, command: Command, reject: Callable[[Any], None] | None = None) -> None:
        """Hands over a command; ``reject`` hears of a worker that is gone."""
        if not self.alive:
            if reject is not None:
                reject(self.gone())
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
            self._thread.start()
        self._commands.put(command)
        # It may have died meanwhile, after its last look.
        if self._death is not None and reject is not None:
            reject(self.gone())

    def gone(self) -> EngineError:
        """Why nothing more is done."""
        error = EngineError(
            "the engine is closed" if self._death is None else f"the engine died: {self._death!r}"
        )
        error.__cause__ = self._death
        return error

    async def close(self) -> None:
        """Stops after the step that is running; idempotent."""
        self._closed = True
        thread = self._thread
        if thread is not None and thread.is_alive():
            self._commands.put(_stop)
            await asyncio.to_thread(thread.join)

    def _run(self) -> None:
        try:
            with self._within():
                while True:
                    while not self._ready() or not self._commands.empty():
                        self._commands.get()()
                    self._step()
        except _Stopped:
            pass
        except BaseException as error:
            self._death = error
        self._closed = True
        self._end(self.gone() if self._death else None)
        while not self._commands.empty():  # told between the last look and _closed
            with contextlib.suppress(_Stopped):
                self._commands.get()()
        self._end(self.gone())


class _Stopped(BaseException):
    """Ends the worker from inside its queue."""


def _stop() -> None:
    raise _Stopped
