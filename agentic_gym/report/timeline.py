"""What ran when, as one SVG picture: rows of bars over a window of time.

Pure functions. The styles are inside, so that a picture can stand alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from markupsafe import Markup, escape

from agentic_gym.report.charts import nice_ticks

Bars = Sequence[tuple[float, float, str]]
"""(start, end, what) in seconds."""

_LEFT, _RIGHT, _TOP, _WIDTH = 84, 12, 48, 960
_ROW, _GAP, _BOTTOM = 16, 4, 34
_GROUND = "#e4e7eb"


def timeline(
    rows: Mapping[str, Bars],
    start: float,
    end: float,
    *,
    title: str,
    colours: Mapping[str, str],
    row_height: int = _ROW,
) -> Markup:
    """Draws rows of bars, cut to a window.

    Args:
        rows: bars by label, from top to bottom.
        start: of the window, in seconds.
        end: of the window.
        title: above the picture.
        colours: of what the bars say, in the order of the legend; the ground is "idle".
        row_height: in pixels.

    Raises:
        ValueError: the window is empty.
    """
    if not start < end:
        raise ValueError(f"the window from {start} to {end} is empty")
    height = _TOP + len(rows) * (row_height + _GAP) + _BOTTOM
    scale = (_WIDTH - _LEFT - _RIGHT) / (end - start)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" '
        f'aria-label="{escape(title)}" font-family="system-ui, sans-serif" font-size="11">',
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="{_LEFT}" y="18" font-size="14">{escape(title)}</text>',
        *_legend(colours),
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
        y = _TOP + index * (row_height + _GAP)
        parts.append(
            f'<text x="{_LEFT - 6}" y="{y + row_height / 2 + 4:.0f}" text-anchor="end">{escape(label)}</text>'
        )
        parts += _row(bars, y, start, end, scale, colours, row_height)
    return Markup("\n".join([*parts, "</svg>"]) + "\n")


def _row(
    bars: Bars,
    y: float,
    start: float,
    end: float,
    scale: float,
    colours: Mapping[str, str],
    height: int,
) -> Iterator[str]:
    yield (
        f'<rect x="{_LEFT}" y="{y}" width="{(end - start) * scale:.1f}" height="{height}" '
        f'fill="{_GROUND}"/>'
    )
    for begun, ended, what in bars:
        left, right = max(begun, start), min(ended, end)
        if left < right and what != "idle":
            yield (
                f'<rect x="{_LEFT + (left - start) * scale:.2f}" y="{y}" '
                f'width="{(right - left) * scale:.2f}" height="{height}" fill="{colours[what]}">'
                f"<title>{what}: {begun:,.1f} to {ended:,.1f} s</title></rect>"
            )


def _legend(colours: Mapping[str, str]) -> Iterator[str]:
    x = _LEFT
    for what, colour in colours.items():
        yield (
            f'<rect x="{x}" y="27" width="10" height="10" fill="{colour}"/>'
            f'<text x="{x + 14}" y="36">{what}</text>'
        )
        x += 28 + 7 * len(what)
