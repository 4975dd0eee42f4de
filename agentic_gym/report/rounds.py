"""When the episodes of one batch ran, and what each of their turns waited for."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from agentic_gym.report.timeline import Bars, timeline
from agentic_gym.types import Trajectory

COLOURS = {"engine": "#3b7dd8", "environment": "#e0a030", "between": "#e4e7eb"}
"""What a turn waits for: the engine (while the episode was parked, too), or ``env.step`` with its tests."""

_MOST_ROWS = 64


def draw_round(batch: Sequence[Trajectory], *, title: str) -> Markup | None:
    """A row for each episode, in the order in which they began; None if nothing says when they ran.

    Args:
        batch: the episodes; of many, the first are drawn.
        title: above the picture.
    """
    timed = [t for t in batch if "began_at" in t.metrics and t.turns]
    timed.sort(key=lambda t: t.metrics["began_at"])
    rows: dict[str, Bars] = {}
    if not timed:
        return None
    first = timed[0].metrics["began_at"]
    for trajectory in timed[:_MOST_ROWS]:
        rows[trajectory.trajectory_id] = _bars(trajectory, trajectory.metrics["began_at"] - first)
    end = max((bar[1] for bars in rows.values() for bar in bars), default=0.0)
    if end <= 0:
        return None
    return timeline(rows, 0.0, end, title=title, colours=COLOURS, row_height=8)


def _bars(trajectory: Trajectory, offset: float) -> Bars:
    bars = []
    for turn in trajectory.turns:
        begun = offset + turn.began_s
        answered = begun + turn.generate_s
        bars.append((begun, answered, "engine"))
        bars.append((answered, answered + turn.step_s, "environment"))
    return bars
