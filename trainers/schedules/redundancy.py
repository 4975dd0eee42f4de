"""How many groups to launch so that enough of them finish before the long ones.

A round that needs n finishers and launches exactly n lasts as long as the longest. Launching more lets it
end without the long ones; how many more depends on the share of long ones, which :class:`TailRate` measures.

The popular rule, n·α·r/(1−r) more at a rate r, is offered (:class:`ExpectedFinishers`), but is no default: at
α = 1 it gives only the *expected* number of finishers, so that about every second round still waits for a
long one. :class:`BinomialQuantile` asks for enough finishers with a stated probability.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentic_gym.errors import ConfigError

_MIN_HISTORY = 8
"""Durations that a median needs before anything is called long by it."""

_ROUNDING = 1e-9
"""1.1 · 10 is 11.000000000000002 in floating point, and still 11 to launch."""


class TailRate:
    """Share of long durations, measured as they come.

    A duration is long when it exceeds ``cut`` times the median of those before it. The share is an
    exponentially weighted mean over about ``memory`` durations. Where quick ones are let through first, as
    in tail batching, ``memory`` and ``window`` must span a whole cycle of short and long rounds, or the
    estimate swings with it.

    Args:
        cut: multiple of the median above which a duration is long.
        window: durations that the running median is taken over.
        memory: durations after which an observation weighs 1/e.
        prior: share before anything was observed.

    Attributes:
        rate: the share, from 0 to 1.

    Raises:
        ConfigError: a number is out of range.

    >>> tail = TailRate(memory=2, prior=0.0)
    >>> for seconds in [1.0] * 8 + [10.0]:
    ...     tail.observe(seconds)
    >>> tail.rate
    0.5
    """

    def __init__(
        self, *, cut: float = 3.0, window: int = 512, memory: int = 512, prior: float = 0.2
    ) -> None:
        if not 1 <= cut < math.inf:
            raise ConfigError(f"cut={cut} must be a multiple of the median, 1 or more")
        if window < _MIN_HISTORY or memory < 1:
            raise ConfigError(
                f"window={window} must be at least {_MIN_HISTORY} and memory={memory} at least 1"
            )
        if not 0 <= prior <= 1:
            raise ConfigError(f"prior={prior} is a share: from 0 to 1")
        self.rate = prior
        self._cut, self._window, self._step = cut, window, 1 / memory
        self._recent: deque[float] = deque()
        self._sorted: list[float] = []

    @property
    def median(self) -> float | None:
        """Of the window; None before anything was observed."""
        ordered, middle = self._sorted, len(self._sorted) // 2
        if not ordered:
            return None
        return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2

    def observe(self, seconds: float) -> None:
        """Takes in a duration, in seconds."""
        median = self.median
        if median is not None and len(self._sorted) >= _MIN_HISTORY:
            self.rate += self._step * ((seconds > self._cut * median) - self.rate)
        self._recent.append(seconds)
        insort(self._sorted, seconds)
        self._forget()

    def state_dict(self) -> dict[str, Any]:
        """JSON-able state."""
        return {"rate": self.rate, "recent": list(self._recent)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over a saved state, also one of a wider window."""
        self.rate = float(state["rate"])
        self._recent = deque(float(seconds) for seconds in state["recent"])
        self._sorted = sorted(self._recent)
        self._forget()

    def _forget(self) -> None:
        while len(self._recent) > self._window:
            del self._sorted[bisect_left(self._sorted, self._recent.popleft())]


@dataclass(frozen=True, slots=True)
class FixedFactor:
    """``factor`` times as many, whatever the rate; RollPacker (NSDI '26) launches 1.25 times.

    >>> FixedFactor(1.25).launches(128, rate=0.0)
    160

    Raises:
        ConfigError: the factor is below 1, or infinite.
    """

    factor: float = 1.25

    def __post_init__(self) -> None:
        _check_multiple("factor", self.factor)

    def launches(self, needed: int, rate: float) -> int:
        """Groups to launch for ``needed`` finishers; the rate is not looked at."""
        return multiple(self.factor, needed)


@dataclass(frozen=True, slots=True)
class ExpectedFinishers:
    """α·r/(1−r)·n more than the n needed: the expected number of finishers is n at α = 1.

    Attributes:
        alpha: α, from 0.8 to 1.2.
        cap: multiple of ``needed`` beyond which nothing is launched.

    >>> ExpectedFinishers().launches(128, rate=0.2)
    160

    Raises:
        ConfigError: a number is out of range.
    """

    alpha: float = 1.0
    cap: float = 4.0

    def __post_init__(self) -> None:
        if not 0.8 <= self.alpha <= 1.2:
            raise ConfigError(
                f"alpha={self.alpha} must be from 0.8 to 1.2; for another safety margin use "
                "BinomialQuantile with a confidence, or a fixed factor"
            )
        _check_multiple("cap", self.cap)

    def launches(self, needed: int, rate: float) -> int:
        """Groups to launch for ``needed`` finishers at this share of long ones."""
        rate, most = _check_rate(rate), multiple(self.cap, needed)
        if rate == 1:
            return most
        return min(most, needed + multiple(self.alpha * rate / (1 - rate), needed))


@dataclass(frozen=True, slots=True)
class BinomialQuantile:
    """The smallest N with P(Binomial(N, 1−r) ≥ n) ≥ confidence: n are not long with this probability.

    Attributes:
        confidence: that probability, above 0 and below 1.
        cap: multiple of ``needed`` beyond which nothing is launched.

    >>> [BinomialQuantile().launches(128, rate) for rate in (0.0, 0.1, 0.2)]
    [128, 147, 168]

    Raises:
        ConfigError: a number is out of range.
    """

    confidence: float = 0.9
    cap: float = 4.0

    def __post_init__(self) -> None:
        if not 0 < self.confidence < 1:
            raise ConfigError(f"confidence={self.confidence} must be above 0 and below 1")
        _check_multiple("cap", self.cap)

    def launches(self, needed: int, rate: float) -> int:
        """Groups to launch for ``needed`` finishers at this share of long ones.

        The long ones before the n-th finisher are negative binomial: j of them with probability
        C(n+j−1, j)·(1−r)^n·r^j. The terms are added as logarithms: (1−r)^n underflows for large n.
        """
        rate, most = _check_rate(rate), multiple(self.cap, needed)
        if needed == 0 or rate == 0:
            return needed
        if rate == 1:
            return most
        term = total = needed * math.log1p(-rate)
        # 0.9 launched once succeeds with 0.9: rounding must not make that two.
        wanted = math.log(self.confidence) - _ROUNDING
        num_long = 0
        while total < wanted and needed + num_long < most:
            term += math.log(rate * (needed + num_long) / (num_long + 1))
            num_long += 1
            larger, smaller = max(total, term), min(total, term)
            total = larger + math.log1p(math.exp(smaller - larger))
        return needed + num_long


Redundancy = FixedFactor | ExpectedFinishers | BinomialQuantile
"""A rule. All launch at least what is needed, and most at rate 1."""


def make_rule(value: Redundancy | float | str) -> Redundancy:
    """A rule, by itself, by its factor or by name: "expected" or "quantile".

    >>> make_rule("quantile")
    BinomialQuantile(confidence=0.9, cap=4.0)
    >>> make_rule(1.25)
    FixedFactor(factor=1.25)

    Raises:
        ConfigError: there is none of this name.
    """
    if isinstance(value, Redundancy):
        return value
    if isinstance(value, str):
        named: dict[str, Redundancy] = {
            "expected": ExpectedFinishers(),
            "quantile": BinomialQuantile(),
        }
        if value not in named:
            raise ConfigError(
                f'redundancy {value!r} is not known: "expected", "quantile" or a factor such as 1.25'
            )
        return named[value]
    return FixedFactor(value)


def multiple(factor: float, number: int) -> int:
    """``factor`` times ``number``, rounded up.

    >>> multiple(1.1, 10), multiple(1.25, 5)
    (11, 7)
    """
    return math.ceil(factor * number - _ROUNDING)


def _check_multiple(name: str, value: float) -> None:
    if not 1 <= value < math.inf:
        raise ConfigError(f"{name}={value} must be 1 or more: fewer than needed are never enough")


def _check_rate(rate: float) -> float:
    if not 0 <= rate <= 1:
        raise ConfigError(f"rate={rate} is a share: from 0 to 1")
    return rate
