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
_BAR_WIDTH, _BAR_HEIGHT, _BAR_MARGIN = 200, 10, 8
_QUARTERS = (0.0, 0.25, 0.5, 0.75, 1.0)


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


def interval_bar(interval: Interval, *, kind: str) -> Markup:
    """A share with its interval on a scale from 0 to 1; ``kind`` is its style class."""
    middle = _BAR_HEIGHT / 2
    parts = [
        f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{_BAR_HEIGHT}"/>'
        for x in map(_along, _QUARTERS)
    ]
    if math.isfinite(interval.value):
        ends = f'x1="{_along(interval.low):.1f}" x2="{_along(interval.high):.1f}"'
        parts.append(f'<line class="whisker {kind}" {ends} y1="{middle}" y2="{middle}"/>')
        parts.append(
            f'<circle class="{kind}" cx="{_along(interval.value):.1f}" cy="{middle}" r="3"/>'
        )
    return _svg(parts, _BAR_WIDTH, _BAR_HEIGHT, f"{interval:.3f}")


def interval_axis() -> Markup:
    """The scale of :func:`interval_bar`, in percent."""
    parts = [
        f'<text class="tick" x="{_along(mark):.1f}" y="6" text-anchor="middle">{100 * mark:.0f}</text>'
        for mark in _QUARTERS
    ]
    return _svg(parts, _BAR_WIDTH, 8, "0 to 100 percent")


def stacked_bar(segments: Mapping[str, float], *, total: float | None = None) -> Markup:
    """Parts of a whole, side by side; the names are their style classes too.

    Args:
        segments: sizes by name; those that are not positive are left out.
        total: what the full width stands for; the sum if None.
    """
    left, parts = 0.0, []
    shown = {name: size for name, size in segments.items() if size > 0 and math.isfinite(size)}
    whole = total or sum(shown.values()) or 1.0
    for name, size in shown.items():
        share = size / whole * _BAR_WIDTH
        parts.append(
            f'<rect class="{escape(name)}" x="{left:.2f}" y="0" width="{share:.2f}" height="{_BAR_HEIGHT}">'
            f"<title>{escape(name)}: {_short(size)}</title></rect>"
        )
        left += share
    words = ", ".join(f"{name} {_short(size)}" for name, size in shown.items())
    return _svg(parts, _BAR_WIDTH, _BAR_HEIGHT, words or "nothing")


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


def moving_average(points: Points) -> list[tuple[float, float]]:
    """Mean over a centred window of about an eighth of the points; what is not finite is passed over.

    The window shrinks on both sides towards the ends, so that a trend is neither delayed nor bent.
    """
    finite = [(x, y) for x, y in points if math.isfinite(y)]
    half = max(1, len(finite) // 16)
    averaged = []
    for index, (x, _) in enumerate(finite):
        reach = min(half, index, len(finite) - 1 - index)
        window = [y for _, y in finite[index - reach : index + reach + 1]]
        averaged.append((x, sum(window) / len(window)))
    return averaged


def thin(points: Points, most: int) -> list[tuple[float, float]]:
    """At most ``most`` points: means of equal runs; runs with anything infinite or NaN become NaN."""
    size = math.ceil(len(points) / most)
    if size <= 1:
        return list(points)
    runs = [points[start : start + size] for start in range(0, len(points), size)]
    return [(sum(x for x, _ in run) / len(run), sum(y for _, y in run) / len(run)) for run in runs]


def _along(share: float) -> float:
    return _BAR_MARGIN + min(max(share, 0.0), 1.0) * (_BAR_WIDTH - 2 * _BAR_MARGIN)


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
