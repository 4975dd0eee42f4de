"""What a rule is, what it finds, and when a figure has been wrong for long enough to say so."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from agentic_gym.trainers.diagnosis.facts import RunFacts

Severity = Literal["critical", "warning", "note"]
Points = Sequence[tuple[int, float]]
"""(update, value), by update."""

SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "note")
"""From the one that ruins a run to the one that only costs time or certainty."""

NEED = 3
"""Updates that must be wrong. One update is one batch, and one batch can be bad luck."""
WITHIN = 4
"""Updates among which they are counted: a figure near its threshold goes to and fro, and is still wrong."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A key of the configuration that bears on a finding.

    Attributes:
        key: as in the YAML file, dotted; ``ppo.extra.`` leads to ``AgenticPPOConfig``, ``schedule_options.``
            to the schedule, ``env.options.`` to the environment (those of the SWE environment are named).
        advice: what to do with it.
        now: what the run has, if its configuration is known.
        unless: given what the run has, if that is known: whether it already does what is advised.
    """

    key: str
    advice: str
    now: Any = None
    unless: Callable[[Any], bool] = field(default=lambda now: False, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Spell:
    """Updates over which a figure was wrong.

    Attributes:
        since: first update.
        until: last update, or None where it still holds at the end.
        figure: median of the wrong values.
    """

    since: int
    until: int | None
    figure: float


@dataclass(frozen=True, slots=True)
class Found:
    """What a rule has to say.

    Attributes:
        severity: see :data:`SEVERITIES`.
        figure: what was measured.
        threshold: what it was compared with.
        sentence: what it means.
        since: first update of which it holds; None: of the whole run.
        until: last update of which it held; None: still.
    """

    severity: Severity
    figure: float
    threshold: float
    sentence: str
    since: int | None = None
    until: int | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding as it is reported: what the rule said, under its name, with the settings to change."""

    name: str
    severity: Severity
    figure: float
    threshold: float
    since: int | None
    until: int | None
    sentence: str
    settings: tuple[Setting, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """Something that goes wrong with runs.

    Attributes:
        name: of its findings.
        about: what it says when it speaks, for the documentation.
        settings: that bear on it; those that the run's schedule does not read are left out.
        check: looks; None where all is well or the facts do not tell.
    """

    name: str
    about: str
    settings: tuple[Setting, ...]
    check: Callable[[RunFacts], Found | None]


def spell(
    points: Points, wrong: Callable[[float], bool], *, need: int = NEED, within: int = WITHIN
) -> Spell | None:
    """The last stretch of updates with ``need`` wrong values among any ``within`` that follow each other.

    A NaN is never wrong here: it has a rule of its own.

    >>> spell([(1, 0.9), (2, 0.1), (3, 0.9), (4, 0.9), (5, 0.1)], lambda share: share > 0.5)
    Spell(since=1, until=None, figure=0.9)
    """
    bad = [not math.isnan(value) and wrong(value) for _, value in points]
    width = min(within, len(points))
    inside = [False] * len(points)
    for first in range(len(points) - width + 1):
        if sum(bad[first : first + width]) >= need:
            inside[first : first + width] = [True] * width
    if not any(inside):
        return None
    last = max(i for i, yes in enumerate(inside) if yes)
    first = last
    while first > 0 and inside[first - 1]:
        first -= 1
    hits = [i for i in range(first, last + 1) if bad[i]]
    # A figure that has been right once at the end is not over: it takes as many as it took to begin.
    over = len(points) - 1 - hits[-1] > within - need
    return Spell(
        since=points[hits[0]][0],
        until=points[hits[-1]][0] if over else None,
        figure=median(points[i][1] for i in hits),
    )


def alarm(
    series: str,
    limit: float,
    sentence: str,
    severity: Severity = "warning",
    *,
    below: bool = False,
) -> Callable[[RunFacts], Found | None]:
    """A check that compares one series with a constant.

    Args:
        series: name of it.
        limit: that it may reach and not exceed.
        sentence: of the finding; ``{figure}`` in it is what was measured.
        severity: of the finding.
        below: the limit is the least instead.
    """

    def check(facts: RunFacts) -> Found | None:
        found = spell(facts.points(series), lambda v: v < limit if below else v > limit)
        if found is None:
            return None
        words = sentence.format(figure=found.figure)
        return Found(severity, found.figure, limit, words, found.since, found.until)

    return check


@dataclass(frozen=True, slots=True)
class Shift:
    """How a noisy figure moved over a run.

    Attributes:
        early: mean of the first third.
        late: mean of the last third.
        error: standard error of their difference, from the scatter within each.
    """

    early: float
    late: float
    error: float

    @property
    def rise(self) -> float:
        """Late minus early."""
        return self.late - self.early


MIN_TREND = 6
"""Updates that a trend needs: two in each third."""


def shift(points: Points) -> Shift | None:
    """First against last third; None for fewer than :data:`MIN_TREND` points."""
    values = [value for _, value in points if math.isfinite(value)]
    third = len(values) // 3
    if len(values) < MIN_TREND:
        return None
    parts = values[:third], values[-third:]
    means = [sum(part) / third for part in parts]
    spreads = [
        sum((v - m) * (v - m) for v in part) / (third - 1)
        for part, m in zip(parts, means, strict=True)
    ]
    return Shift(means[0], means[1], math.sqrt(sum(spreads) / third))
