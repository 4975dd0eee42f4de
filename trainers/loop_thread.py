"""An event loop in a thread of its own, so that episodes go on while the trainer works."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


class LoopThread:
    """Runs coroutines on a loop that goes on between calls. Use it as a context manager, or close it."""

    def __init__(self) -> None:
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="rollout", daemon=True)
        self._thread.start()
        self._ready.wait()

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._thread.is_alive()

    def call(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """Runs a coroutine there, waits for it, and returns or raises what it does.

        An interrupt of the waiting thread (Ctrl-C) cancels it.
        """
        assert self._loop is not None
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Cancels what runs there and ends the thread; idempotent."""
        if self._loop is not None and self._stop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()

    def _run(self) -> None:
        asyncio.run(self._main())

    async def _main(self) -> None:
        stop = self._stop = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._ready.set()
        await stop.wait()
