from __future__ import annotations

import json
import random
from fractions import Fraction
from math import comb
from statistics import median

import pytest

from agentic_gym.errors import ConfigError
from agentic_gym.trainers.schedules.redundancy import (
    BinomialQuantile,
    ExpectedFinishers,
    FixedFactor,
    Redundancy,
    TailRate,
    make_rule,
    multiple,
)


def enough(launched: int, needed: int, rate: Fraction) -> Fraction:
    """P(Binomial(launched, 1 − rate) ≥ needed), exactly."""
    return sum(
        (
            comb(launched, quick) * (1 - rate) ** quick * rate ** (launched - quick)
            for quick in range(needed, launched + 1)
        ),
        Fraction(0),
    )


@pytest.mark.parametrize("confidence", ["0.5", "0.9", "0.99"])
@pytest.mark.parametrize("rate", ["0.01", "0.1", "0.25", "0.5", "0.9"])
@pytest.mark.parametrize("needed", [1, 2, 5, 8])
def test_the_quantile_is_the_smallest_that_suffices(
    needed: int, rate: str, confidence: str
) -> None:
    # In decimal fractions: one launch at a rate of 0.1 succeeds with exactly 0.9.
    launched = needed
    while launched < 4 * needed and enough(launched, needed, Fraction(rate)) < Fraction(confidence):
        launched += 1
    rule = BinomialQuantile(float(confidence))
    assert rule.launches(needed, float(rate)) == launched


@pytest.mark.parametrize("rate", [0.05, 0.5, 0.7])
def test_the_quantile_stays_exact_where_powers_underflow(rate: float) -> None:
    # 0.3 ** 4096 is 0.0. The normal approximation is good to a few launches in ten thousand.
    launched = BinomialQuantile().launches(4096, rate)
    mean, spread = launched * (1 - rate), (launched * rate * (1 - rate)) ** 0.5
    assert (mean - 4096) / spread == pytest.approx(1.2816, abs=0.05)


@pytest.mark.parametrize("rule", [BinomialQuantile(), ExpectedFinishers(), FixedFactor(4.0)])
@pytest.mark.parametrize("needed", [0, 1, 7, 4096])
def test_every_rule_launches_enough_and_no_more_than_its_cap(rule: Redundancy, needed: int) -> None:
    rates = [0.0, 5e-324, 1e-12, 0.2, 0.9, 1 - 2**-53, 1.0]
    launched = [rule.launches(needed, rate) for rate in rates]
    assert launched == sorted(launched)
    assert needed <= launched[0]
    assert launched[-2:] == [4 * needed, 4 * needed]
    if not isinstance(rule, FixedFactor):
        assert launched[:2] == [needed, needed]


def test_a_cap_is_rounded_up() -> None:
    assert BinomialQuantile(cap=1.5).launches(5, 0.9) == 8
    assert ExpectedFinishers(cap=1.1).launches(10, 0.9) == 11


@pytest.mark.parametrize(("alpha", "launched"), [(0.8, 28), (1.0, 30), (1.2, 32)])
def test_the_popular_formula(alpha: float, launched: int) -> None:
    # 20 and alpha · 0.5 · 20 more, at a third of long ones.
    assert ExpectedFinishers(alpha).launches(20, 1 / 3) == launched


def test_the_popular_formula_falls_short_every_second_time() -> None:
    launched = ExpectedFinishers().launches(64, 0.2)
    assert 0.5 < enough(launched, 64, Fraction("0.2")) < 0.6


def test_a_factor_is_rounded_up_but_not_by_an_error_of_rounding() -> None:
    assert [multiple(1.1, n) for n in (10, 11, 30)] == [11, 13, 33]
    assert FixedFactor(1.25).launches(3, 0.9) == 4


def test_rules_by_name() -> None:
    assert make_rule("expected") == ExpectedFinishers()
    assert make_rule("quantile") == BinomialQuantile()
    assert make_rule(2) == FixedFactor(2)
    assert make_rule(BinomialQuantile(0.5)) == BinomialQuantile(0.5)


@pytest.mark.parametrize(
    "make",
    [
        lambda: FixedFactor(0.99),
        lambda: FixedFactor(float("inf")),
        lambda: FixedFactor(float("nan")),
        lambda: ExpectedFinishers(0.79),
        lambda: ExpectedFinishers(1.21),
        lambda: ExpectedFinishers(cap=0.5),
        lambda: BinomialQuantile(1.0),
        lambda: BinomialQuantile(0.0),
        lambda: BinomialQuantile(cap=0.5),
        lambda: BinomialQuantile().launches(4, 1.1),
        lambda: ExpectedFinishers().launches(4, float("nan")),
        lambda: make_rule("popular"),
        lambda: TailRate(cut=0.9),
        lambda: TailRate(window=7),
        lambda: TailRate(memory=0),
        lambda: TailRate(prior=1.1),
    ],
)
def test_what_is_out_of_range_is_refused(make: object) -> None:
    assert callable(make)
    with pytest.raises(ConfigError):
        make()


def test_the_rate_is_the_weighted_share_over_the_running_median() -> None:
    rng = random.Random(1)
    tail = TailRate(window=20, memory=50, prior=0.1)
    seen: list[float] = []
    rate = 0.1
    for _ in range(300):
        seconds = rng.lognormvariate(2.0, 1.5)
        if len(seen) >= 8:
            rate = 0.98 * rate + 0.02 * (seconds > 3 * median(seen[-20:]))
        seen.append(seconds)
        tail.observe(seconds)
        assert tail.rate == pytest.approx(rate)
        assert tail.median == pytest.approx(median(seen[-20:]))


def test_the_rate_of_lognormal_durations() -> None:
    rng = random.Random(0)
    tail = TailRate(memory=2000)
    for _ in range(8000):
        tail.observe(rng.lognormvariate(5.0, 1.0))
    # 1 − Φ(ln 3)
    assert tail.rate == pytest.approx(0.136, abs=0.02)


def test_the_first_durations_are_not_judged() -> None:
    tail = TailRate(prior=0.3)
    assert tail.median is None
    for seconds in [1.0] * 7 + [100.0]:
        tail.observe(seconds)
    assert tail.rate == 0.3


def test_a_saved_rate_goes_on_as_if_nothing_had_happened() -> None:
    rng = random.Random(2)
    one, other = TailRate(window=30), TailRate(window=30)
    durations = [rng.lognormvariate(0, 1) for _ in range(100)]
    for seconds in durations[:50]:
        one.observe(seconds)
    other.load_state_dict(json.loads(json.dumps(one.state_dict())))
    for seconds in durations[50:]:
        one.observe(seconds)
        other.observe(seconds)
    assert one.state_dict() == other.state_dict()
    narrow = TailRate(window=10)
    narrow.load_state_dict(one.state_dict())
    assert narrow.median == median(durations[-10:])
