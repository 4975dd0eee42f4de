"""Seconds of a run's phases, kept in the store."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agentic_gym.store import RunStore

_STATE = "phase_s"


class PhaseTimes:
    """Times the phases of a run, one after another; a run that was stopped inside one adds up.

    A phase that raises is counted whole. A kill leaves what was counted by the last :meth:`save`: what came
    after is missing from the figures, though not what a resumed run does a second time.

    Args:
        store: of the run.
        clock: seconds.
    """

    def __init__(self, store: RunStore, *, clock: Callable[[], float] = time.perf_counter) -> None:
        self._store = store
        self._clock = clock
        self._name: str | None = None
        self._since = 0.0

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Times what happens inside."""
        self._name, self._since = name, self._clock()
        try:
            yield
        finally:
            self.save()
            self._name = None

    def save(self) -> None:
        """Writes down what the running phase has taken so far, if one runs."""
        if self._name is None:
            return
        now = self._clock()
        spent = self._store.get_state(_STATE, {})
        spent[self._name] = spent.get(self._name, 0.0) + now - self._since
        self._store.put_state(_STATE, spent)
        self._since = now
