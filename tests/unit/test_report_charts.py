"""Charts: where points lie, what breaks a line, what is left out."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET

import pytest

from agentic_gym.metrics import Interval
from agentic_gym.report.charts import (
    interval_bar,
    line_chart,
    moving_average,
    nice_ticks,
    stacked_bar,
    thin,
)


def points_of(svg: str) -> list[list[tuple[float, float]]]:
    root = ET.fromstring(svg)
    return [
        [(float(x), float(y)) for x, y in (p.split(",") for p in line.attrib["points"].split())]
        for line in root.iter("polyline")
    ]


def test_lines_lie_where_the_axis_says() -> None:
    svg = line_chart({"": [(0, 0.0), (1, 5.0), (2, 10.0)]}, label="x")
    (line,) = points_of(svg)
    xs, ys = zip(*line, strict=True)
    assert xs[1] == pytest.approx((xs[0] + xs[2]) / 2, abs=0.1)
    assert ys[0] > ys[1] > ys[2]
    labels = {
        text.text: float(text.attrib["y"]) - 3.5
        for text in ET.fromstring(svg).iter("text")
        if text.attrib["text-anchor"] == "end" and text.attrib["x"] == "39"
    }
    assert labels["0"] == pytest.approx(ys[0], abs=0.1)
    assert labels["10"] == pytest.approx(ys[2], abs=0.1)


def test_what_is_not_finite_breaks_a_line() -> None:
    values = [1.0, 2.0, math.nan, 3.0, math.inf, 4.0, 5.0]
    svg = line_chart({"": list(enumerate(values))}, label="x")
    assert [len(line) for line in points_of(svg)] == [2, 2]
    assert svg.count("<circle") == 1
    assert "nan" not in svg
    assert "inf" not in svg


@pytest.mark.parametrize("values", [[], [math.nan], [math.inf, -math.inf]])
def test_nothing_to_draw_is_said(values: list[float]) -> None:
    assert "no finite value" in line_chart({"": list(enumerate(values))}, label="x")


@pytest.mark.parametrize("values", [[3.0], [0.0, 0.0], [1e-9] * 3, [1e12, 1e12 + 1], [-5.0, -5.0]])
def test_flat_and_single_values_are_drawn(values: list[float]) -> None:
    svg = line_chart({"": list(enumerate(values))}, label="x")
    ET.fromstring(svg)
    assert "polyline" in svg or "circle" in svg
    for number in re.findall(r'(?:y1|cy)="([^"]+)"', svg):
        assert 0 <= float(number) <= 170


def test_one_noisy_line_gets_its_average_and_two_do_not() -> None:
    noisy = [(i, float(i % 2)) for i in range(20)]
    assert len(points_of(line_chart({"": noisy}, label="x"))) == 2
    assert len(points_of(line_chart({"a": noisy, "b": noisy}, label="x"))) == 2
    assert 'class="line s1"' in line_chart({"a": noisy, "b": noisy}, label="x")


def test_labels_are_escaped() -> None:
    for svg in (
        line_chart({"": [(0, 1.0)]}, label='"><b>'),
        stacked_bar({'"><b>': 1.0}),
    ):
        assert "<b>" not in svg
        ET.fromstring(svg)


def test_moving_average_against_a_plain_loop() -> None:
    values = [math.sin(i) for i in range(40)]
    averaged = moving_average([*enumerate(values), (40, math.nan)])
    for i, (x, found) in enumerate(averaged):
        reach = min(2, i, 39 - i)
        window = values[i - reach : i + reach + 1]
        assert x == i
        assert found == pytest.approx(sum(window) / len(window))
    assert len(averaged) == 40


def test_moving_average_neither_delays_nor_bends_a_trend() -> None:
    trend = [(float(i), 3.0 * i - 7) for i in range(50)]
    assert [y for _, y in moving_average(trend)] == pytest.approx([y for _, y in trend])


def test_thinning_keeps_means() -> None:
    points = [(float(i), float(i)) for i in range(1000)]
    thinned = thin(points, 100)
    assert len(thinned) == 100
    assert thinned[0] == (4.5, 4.5)
    assert thin(points[:50], 100) == points[:50]


@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 1.0), (-3.0, 17.0), (0.0, 7e-5), (1e6, 1e6 + 1), (-1e-3, -1e-4)]
)
def test_ticks_cover_the_range_and_are_few(low: float, high: float) -> None:
    ticks = nice_ticks(low, high)
    assert ticks[0] <= low + 1e-12
    assert ticks[-1] >= high - 1e-9 * abs(high)
    assert 2 <= len(ticks) <= 7


def test_interval_bars_show_ends_and_clamp() -> None:
    root = ET.fromstring(interval_bar(Interval(0.5, 0.25, 1.5), kind="after"))
    whisker = next(e for e in root.iter("line") if e.attrib["class"] == "whisker after")
    circle = next(root.iter("circle"))
    assert float(whisker.attrib["x1"]) == pytest.approx(8 + 0.25 * 184)
    assert float(whisker.attrib["x2"]) == 192
    assert float(circle.attrib["cx"]) == 100
    nothing = interval_bar(Interval(math.nan, math.nan, math.nan), kind="after")
    assert "circle" not in nothing


def test_stacked_bars_fill_their_width_and_leave_out_nothing_else() -> None:
    root = ET.fromstring(stacked_bar({"solved": 3.0, "failed": 1.0, "truncated": 0.0}))
    rects = list(root.iter("rect"))
    assert [r.attrib["class"] for r in rects] == ["solved", "failed"]
    assert [float(r.attrib["width"]) for r in rects] == [150, 50]
    assert float(rects[1].attrib["x"]) == 150
    half = ET.fromstring(stacked_bar({"time": 1.0}, total=2.0))
    assert float(next(half.iter("rect")).attrib["width"]) == 100
    assert "rect" not in stacked_bar({})
