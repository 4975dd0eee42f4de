"""Which task comes next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from agentic_gym.errors import ConfigError


class TaskSelector(Protocol):
    """Gives the tasks of a run, one a group; its state is saved with the run."""

    def next_task(self) -> str:
        """Id of the next task."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """JSON-able state."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over a saved state."""
        ...


class UniformTasks:
    """Every task once in random order, then all again in another.

    Args:
        task_ids: distinct ids, at least one.
        seed: of the orders.
    """

    def __init__(self, task_ids: Sequence[str], *, seed: int = 0) -> None:
        if not task_ids or len(set(task_ids)) != len(task_ids):
            raise ConfigError(f"task ids must be distinct, at least one; got {len(task_ids)}")
        self._ids = tuple(task_ids)
        self._seed = seed
        self._cursor = 0

    def next_task(self) -> str:
        """The task under the cursor, which then moves on."""
        lap, place = divmod(self._cursor, len(self._ids))
        self._cursor += 1
        order = np.random.default_rng([self._seed, lap]).permutation(len(self._ids))
        return self._ids[int(order[place])]

    def state_dict(self) -> dict[str, Any]:
        """The cursor."""
        return {"cursor": self._cursor}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Moves the cursor."""
        self._cursor = int(state["cursor"])
