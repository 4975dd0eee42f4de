"""Charts as inline SVG, made by pure functions. Colours and fonts come from the page's style sheet.

Rejected: a plotting library. The report must be one file that opens anywhere, and matplotlib would be
its largest dependency.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from markupsafe import Markup, escape

from agentic_gym.metrics import Interval

Points = Sequence[tuple[float, float]]

_WIDTH, _HEIGHT = 320, 170
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 8, 8, 20
_MAX_POINTS = 400


def line_chart(series: Mapping[str, Points], *, label: str) -> Markup:
    """Lines over steps; what is not finite is left out, and breaks its line.

    A single noisy line is drawn faint, with its moving average over it.

    Args:
        series: (step, value) by name; drawn in the colours ``s0``, ``s1`` … of the style sheet.
        label: for readers that do not see the chart.
    """
    finite = [
        point for points in series.values() for point in points if all(map(math.isfinite, point))
    ]
    if not finite:
        return Markup('<p class="none">no finite value</p>')
    x_low, x_high = _range([x for x, _ in finite])
    ticks = nice_ticks(*_range([y for _, y in finite]))
    y_low, y_high = min(ticks[0], *(y for _, y in finite)), max(ticks[-1], *(y for _, y in finite))

    def place(x: float, y: float) -> tuple[float, float]:
        across = (x - x_low) / (x_high - x_low)
        up = (y - y_low) / (y_high - y_low)
        return (
            _LEFT + across * (_WIDTH - _LEFT - _RIGHT),
            _HEIGHT - _BOTTOM - up * (_HEIGHT - _TOP - _BOTTOM),
        )

    parts = []
    for tick in ticks:
        _, y = place(x_low, tick)
        parts.append(
            f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        )
        parts.append(
            f'<text x="{_LEFT - 5}" y="{y + 3.5:.1f}" text-anchor="end">{_short(tick)}</text>'
        )
    for step, anchor in ((x_low, "start"), (x_high, "end")):
        x, _ = place(step, y_low)
        parts.append(
            f'<text x="{x:.1f}" y="{_HEIGHT - 5}" text-anchor="{anchor}">{_short(step)}</text>'
        )
    for index, points in enumerate(series.values()):
        thinned = thin(points, _MAX_POINTS)
        noisy = len(series) == 1 and len(thinned) >= 8
        parts += _line(thinned, place, f"s{index}{' raw' if noisy else ''}")
        if noisy:
            parts += _line(moving_average(thinned), place, f"s{index}")
    return _svg(parts, _WIDTH, _HEIGHT, label)


def interval_bar(interval: Interval, *, kind: str, low: float = 0.0, high: float = 1.0) -> Markup:
    """A point with its interval on a scale from ``low`` to ``high``; ``kind`` is its style class."""
    width, height = 200, 14
    marks = [low + (high - low) * quarter / 4 for quarter in range(5)]

    def place(value: float) -> float:
        return 4 + (min(max(value, low), high) - low) / (high - low) * (width - 8)

    parts = [
        f'<line class="{"zero" if mark == 0 and low < 0 else "grid"}" x1="{place(mark):.1f}" '
        f'x2="{place(mark):.1f}" y1="0" y2="{height}"/>'
        for mark in marks
    ]
    if math.isfinite(interval.value):
        ends = f'x1="{place(interval.low):.1f}" x2="{place(interval.high):.1f}"'
        parts.append(f'<line class="whisker {kind}" {ends} y1="{height / 2}" y2="{height / 2}"/>')
        parts.append(
            f'<circle class="{kind}" cx="{place(interval.value):.1f}" cy="{height / 2}" r="4"/>'
        )
    return _svg(parts, width, height, f"{interval:.3f}")


def stacked_bar(segments: Mapping[str, float], *, total: float | None = None) -> Markup:
    """Parts of a whole, side by side; the names are their style classes too.

    Args:
        segments: sizes by name; those that are not positive are left out.
        total: what the full width stands for; the sum if None.
    """
    width, height, left, parts = 200, 14, 0.0, []
    shown = {name: size for name, size in segments.items() if size > 0 and math.isfinite(size)}
    whole = total or sum(shown.values()) or 1.0
    for name, size in shown.items():
        share = size / whole * width
        parts.append(
            f'<rect class="{escape(name)}" x="{left:.2f}" y="0" width="{share:.2f}" height="{height}">'
            f"<title>{escape(name)}: {_short(size)}</title></rect>"
        )
        left += share
    words = ", ".join(f"{name} {_short(size)}" for name, size in shown.items())
    return _svg(parts, width, height, words or "nothing")


def nice_ticks(low: float, high: float, *, most: int = 5) -> list[float]:
    """Round numbers that cover a range, at most ``most`` where that can be.

    Example:
        >>> nice_ticks(0.0, 1.0)
        [0.0, 0.5, 1.0]
        >>> nice_ticks(-3, 17)
        [-5.0, 0.0, 5.0, 10.0, 15.0, 20.0]
    """
    raw = (high - low) / max(1, most - 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{index * step:.12g}") for index in range(first, last + 1)]


def moving_average(points: Points, *, weight: float = 0.8) -> list[tuple[float, float]]:
    """Exponential moving average without the bias towards the start; what is not finite is passed over."""
    averaged, total, mass = [], 0.0, 0.0
    for x, y in points:
        if math.isfinite(y):
            total, mass = weight * total + y, weight * mass + 1
            averaged.append((x, total / mass))
    return averaged


def thin(points: Points, most: int) -> list[tuple[float, float]]:
    """At most ``most`` points: means of equal runs; runs with anything infinite or NaN become NaN."""
    size = math.ceil(len(points) / most)
    if size <= 1:
        return list(points)
    runs = [points[start : start + size] for start in range(0, len(points), size)]
    return [(sum(x for x, _ in run) / len(run), sum(y for _, y in run) / len(run)) for run in runs]


def _line(points: Points, place: object, style: str) -> list[str]:
    assert callable(place)
    pieces: list[list[str]] = [[]]
    for x, y in points:
        if math.isfinite(y):
            across, up = place(x, y)
            pieces[-1].append(f"{across:.1f},{up:.1f}")
        elif pieces[-1]:
            pieces.append([])
    parts = []
    for piece in pieces:
        if len(piece) == 1:
            x_text, y_text = piece[0].split(",")
            parts.append(f'<circle class="{style}" cx="{x_text}" cy="{y_text}" r="2.5"/>')
        elif piece:
            parts.append(f'<polyline class="line {style}" points="{" ".join(piece)}"/>')
    return parts


def _range(values: Sequence[float]) -> tuple[float, float]:
    """Ends that differ, so that they can be divided by."""
    low, high = min(values), max(values)
    if high - low > 1e-12 * max(abs(low), abs(high)):
        return low, high
    margin = abs(low) / 10 or 1.0
    return low - margin, high + margin


def _short(value: float) -> str:
    if value == int(value) and abs(value) < 1e5:
        return str(int(value))
    return f"{value:.3g}"


def _svg(parts: Sequence[str], width: float, height: float, label: str) -> Markup:
    return Markup(
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}">'
        f"{''.join(parts)}</svg>"
    )
