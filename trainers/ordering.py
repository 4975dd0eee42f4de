"""Longest first: the order in which queued episodes get a slot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentic_gym.trainers.schedules.predictor import LengthPredictor
from agentic_gym.types import Trajectory

_NO_PROMPT = 0


class LongestFirst:
    """Predicts how long a task's episodes take, from those that are over.

    A long episode that starts last holds up everything after it; started first, it runs beside the others
    (Graham, "Bounds on multiprocessing timing anomalies", 1969: longest processing time first).
    """

    def __init__(self) -> None:
        self._predictor = LengthPredictor()
        self._seen: dict[str, tuple[int, str]] = {}

    def rank(self, task_id: str) -> float:
        """Of a task's episodes in the queue: the lowest is played first."""
        chars, error_class = self._seen.get(task_id, (_NO_PROMPT, ""))
        return -self._predictor.predict(task_id, chars, error_class)

    def observe(self, trajectory: Trajectory) -> None:
        """An episode is over."""
        facts = len(trajectory.prompt), trajectory.tags.get("error_class", "")
        self._seen[trajectory.task_id] = facts
        seconds = float(trajectory.metrics.get("duration_s", 0.0))
        if seconds > 0:
            self._predictor.observe(trajectory.task_id, *facts, seconds)

    def metrics(self) -> dict[str, float]:
        """How good the predictions were, made before each episode was observed."""
        score = self._predictor.score()
        found = {
            "length_r2": score.r2,
            "length_rank_correlation": score.rank_correlation,
            "length_long_recall": score.long_recall,
        }
        return {name: value for name, value in found.items() if value is not None}

    def state_dict(self) -> dict[str, Any]:
        """JSON-able state."""
        return {"predictor": self._predictor.state_dict(), "seen": self._seen}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over a saved state."""
        self._predictor.load_state_dict(state["predictor"])
        self._seen = {task: (int(chars), kind) for task, (chars, kind) in state["seen"].items()}
