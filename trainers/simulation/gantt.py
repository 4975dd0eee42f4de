"""A picture of a window of a simulated run: what each replica and the trainer did when, as SVG.

A pure function of its arguments, one file that opens anywhere; the styles are inside, because it is not
part of a page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from markupsafe import escape

from agentic_gym.report.charts import nice_ticks
from agentic_gym.trainers.simulation.driver import Simulation

Bars = Sequence[tuple[float, float, str]]
"""(start, end, what) in seconds."""

COLOURS = {
    "busy": "#3b7dd8",
    "publish": "#e0a030",
    "train": "#7a5cc4",
    "dead": "#b03030",
    "idle": "#e4e7eb",
}
"""By what is done, in the order of the legend."""

_LEFT, _RIGHT, _TOP, _WIDTH = 84, 12, 48, 960
_ROW, _GAP, _BOTTOM = 16, 4, 34


def gantt(rows: Mapping[str, Bars], start: float, end: float, *, title: str) -> str:
    """Draws rows of bars, cut to a window.

    Args:
        rows: bars by label, from top to bottom.
        start: of the window, in seconds.
        end: of the window.
        title: above the picture.

    Raises:
        ValueError: the window is empty.
    """
    if not start < end:
        raise ValueError(f"the window from {start} to {end} is empty")
    height = _TOP + len(rows) * (_ROW + _GAP) + _BOTTOM
    scale = (_WIDTH - _LEFT - _RIGHT) / (end - start)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" '
        f'aria-label="{escape(title)}" font-family="system-ui, sans-serif" font-size="11">',
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="{_LEFT}" y="18" font-size="14">{escape(title)}</text>',
        *_legend(),
    ]
    for tick in nice_ticks(start, end, most=9):
        if start <= tick <= end:
            x = _LEFT + (tick - start) * scale
            parts.append(
                f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 4}" y2="{height - _BOTTOM + 4}" '
                f'stroke="#c8ccd2"/><text x="{x:.1f}" y="{height - 14}" text-anchor="middle">'
                f"{tick:,g} s</text>"
            )
    for index, (label, bars) in enumerate(rows.items()):
        y = _TOP + index * (_ROW + _GAP)
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 12}" text-anchor="end">{escape(label)}</text>')
        parts += _row(bars, y, start, end, scale)
    return "\n".join([*parts, "</svg>"]) + "\n"


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


def _row(bars: Bars, y: float, start: float, end: float, scale: float) -> Iterator[str]:
    yield (
        f'<rect x="{_LEFT}" y="{y}" width="{(end - start) * scale:.1f}" height="{_ROW}" '
        f'fill="{COLOURS["idle"]}"/>'
    )
    for begun, ended, what in bars:
        left, right = max(begun, start), min(ended, end)
        if left < right and what != "idle":
            yield (
                f'<rect x="{_LEFT + (left - start) * scale:.2f}" y="{y}" '
                f'width="{(right - left) * scale:.2f}" height="{_ROW}" fill="{COLOURS[what]}">'
                f"<title>{what}: {begun:,.1f} to {ended:,.1f} s</title></rect>"
            )


def _legend() -> Iterator[str]:
    x = _LEFT
    for what, colour in COLOURS.items():
        yield (
            f'<rect x="{x}" y="27" width="10" height="10" fill="{colour}"/>'
            f'<text x="{x + 14}" y="36">{what}</text>'
        )
        x += 28 + 7 * len(what)
