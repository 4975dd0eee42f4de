"""The way back from an engine's worker thread to the coroutine that waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


def settler(loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any]) -> Callable[[Any], None]:
    """A function that gives a future its result or error, from any thread."""

    def apply(result: Any) -> None:
        if future.done():
            return
        if isinstance(result, BaseException):
            future.set_exception(result)
        else:
            future.set_result(result)

    def settle(result: Any) -> None:
        try:
            loop.call_soon_threadsafe(apply, result)
        except RuntimeError:  # the loop is closed: nobody waits any more
            pass

    return settle
