"""Curves of success against episodes, paired by seed: for the benchmarks of credit and selection."""

from __future__ import annotations

import datetime
import itertools
import json
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

Curve = list[tuple[float, float]]
"""(episodes, success), episodes ascending from 0."""

DRAWS = 4000


def area(curve: Curve) -> float:
    """Mean success over the episodes of a curve (trapezoids)."""
    x, y = np.asarray(curve, float).T
    return float(((y[1:] + y[:-1]) / 2 * np.diff(x)).sum() / (x[-1] - x[0]))


def episodes_to(curve: Curve, success: float) -> float:
    """Episodes after which a curve first reaches a success; infinite if it never does."""
    for (x0, y0), (x1, y1) in itertools.pairwise(curve):
        if y0 >= success:
            return x0
        if y1 >= success:
            return x0 + (x1 - x0) * (success - y0) / (y1 - y0)
    return float("inf")


def mean_curve(curves: Sequence[Curve]) -> Curve:
    """Mean over seeds; all curves have the same episodes."""
    return [
        (points[0][0], float(np.mean([y for _, y in points])))
        for points in zip(*curves, strict=True)
    ]


def interval(values: Sequence[float], seed: int = 0) -> tuple[float, float]:
    """95 % interval of the mean, by drawing seeds again (bootstrap)."""
    draws = np.random.default_rng(seed).choice(np.asarray(values), (DRAWS, len(values)))
    low, high = np.percentile(draws.mean(axis=1), [2.5, 97.5])
    return float(low), float(high)


def episodes_ratio(
    curves: Sequence[Curve], base: Sequence[Curve], seed: int = 0
) -> tuple[float, float, float]:
    """Episodes that an arm needs for the success with which the baseline ends, by the baseline's.

    Curves are averaged over seeds first, since single ones cross a level by chance; the interval draws seeds
    again, the same for both. An arm that does not get there needs infinitely many.

    Returns:
        The ratio, and its 95 % interval.
    """

    def ratio(chosen: Sequence[int]) -> float:
        mine, other = mean_curve([curves[i] for i in chosen]), mean_curve([base[i] for i in chosen])
        level = max(y for _, y in other)
        needed = episodes_to(other, level)
        return episodes_to(mine, level) / needed if needed else float("inf")

    rng = np.random.default_rng(seed)
    draws = [ratio(rng.integers(len(base), size=len(base)).tolist()) for _ in range(1000)]
    low, high = np.quantile(draws, [0.025, 0.975], method="inverted_cdf")
    return ratio(range(len(base))), float(low), float(high)


def table(title: str, arms: Mapping[str, Sequence[Curve]], base: str) -> Table:
    """One row an arm: success at the end, area, and both against the baseline."""
    found = Table(title=title, title_justify="left")
    for column in ("arm", "success at the end", "area", f"area - {base}", f"episodes of {base}"):
        found.add_column(column)
    own = {name: [area(curve) for curve in curves] for name, curves in arms.items()}
    for name, curves in arms.items():
        ends = [curve[-1][1] for curve in curves]
        gains = [mine - other for mine, other in zip(own[name], own[base], strict=True)]
        low, high = interval(gains)
        ratio, least, most = episodes_ratio(curves, arms[base])
        found.add_row(
            name,
            f"{np.mean(ends):.3f}",
            f"{np.mean(own[name]):.3f}",
            "" if name == base else f"{np.mean(gains):+.3f} [{low:+.3f}, {high:+.3f}]",
            "" if name == base else f"{ratio:.2f} [{least:.2f}, {most:.2f}]",
        )
    return found


def finished(path: Path | None) -> dict[str, Curve]:
    """Curves that an earlier, interrupted call has written, by key."""
    if path is None or not path.exists():
        return {}
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    if not all("key" in line and "curve" in line for line in lines):
        raise SystemExit(f"{path} holds something else than curves: name another file")
    return {line["key"]: [tuple(point) for point in line["curve"]] for line in lines}


def keep(path: Path | None, key: str, curve: Curve, **facts: Any) -> None:
    """Appends a curve, so that an interrupted benchmark goes on where it was."""
    if path is None:
        return
    line = {
        "key": key,
        "curve": curve,
        "date": datetime.date.today().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        **facts,
    }
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")
