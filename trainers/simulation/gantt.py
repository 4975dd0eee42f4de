"""A picture of a window of a simulated run: what each replica and the trainer did when, as SVG."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agentic_gym.report.timeline import Bars, timeline
from agentic_gym.trainers.simulation.driver import Simulation

COLOURS = {
    "busy": "#3b7dd8",
    "publish": "#e0a030",
    "train": "#7a5cc4",
    "dead": "#b03030",
    "idle": "#e4e7eb",
}
"""By what is done, in the order of the legend."""


def gantt(rows: Mapping[str, Bars], start: float, end: float, *, title: str) -> str:
    """Rows of bars in these colours; see :func:`~agentic_gym.report.timeline.timeline`."""
    return timeline(rows, start, end, title=title, colours=COLOURS)


def draw(simulation: Simulation, name: str, start: float, end: float) -> str:
    """The picture of a run that kept what its replicas did.

    Args:
        simulation: a run with ``picture``, that is over.
        name: of its schedule.
        start: of the window, in simulated seconds.
        end: of the window; cut at the end of the run.
    """
    end = min(end, simulation.now)
    rows: dict[str, Bars] = {
        "trainer": [(begun, ended, "train") for begun, ended in simulation.record.bars]
    }
    for number, replica in sorted(simulation.fleet.replicas.items()):
        if replica.bars is not None:
            rows[f"replica {number}"] = list(_spans(replica.bars, simulation.now))
    return gantt(
        rows, start, end, title=f"{name}: simulated, {start:,.0f} to {end:,.0f} s of the run"
    )


def _spans(changes: Sequence[tuple[float, str]], end: float) -> Iterator[tuple[float, float, str]]:
    for (start, what), (following, _) in zip(changes, [*changes[1:], (end, "")], strict=True):
        if following > start:
            yield start, following, what
