"""Statistics against plain loops, enumeration and published values."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest

from agentic_gym.errors import ConfigError
from agentic_gym.metrics import (
    Interval,
    cluster_mean,
    mean_pass_at_k,
    paired_difference,
    pass_at_k,
    percentiles,
    wilson_interval,
)


def test_pass_at_k_equals_enumeration() -> None:
    for samples in range(1, 8):
        for correct in range(samples + 1):
            for k in range(1, samples + 1):
                draws = list(itertools.combinations([1] * correct + [0] * (samples - correct), k))
                share = sum(any(draw) for draw in draws) / len(draws)
                assert pass_at_k(samples, correct, k) == pytest.approx(share, abs=1e-12)


def test_pass_at_k_is_stable_for_many_samples() -> None:
    exact = 1 - math.comb(99_990, 5_000) / math.comb(100_000, 5_000)
    assert pass_at_k(100_000, 10, 5_000) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize(("samples", "correct", "k"), [(3, 4, 1), (3, -1, 1), (3, 1, 0), (3, 1, 4)])
def test_pass_at_k_refuses_impossible_counts(samples: int, correct: int, k: int) -> None:
    with pytest.raises(ConfigError, match=str(samples)):
        pass_at_k(samples, correct, k)


def test_mean_pass_at_k_leaves_out_tasks_with_too_few_samples() -> None:
    assert mean_pass_at_k([(4, 2), (1, 0), (4, 4)], 2) == pytest.approx(
        (pass_at_k(4, 2, 2) + 1.0) / 2
    )
    assert math.isnan(mean_pass_at_k([(1, 1)], 2))


@pytest.mark.parametrize(
    ("successes", "total", "low", "high"),
    # Newcombe (1998), table I, method 3.
    [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_equals_the_published_table(
    successes: int, total: int, low: float, high: float
) -> None:
    interval = wilson_interval(successes, total)
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=5e-5)
    assert interval.value == successes / total


def test_wilson_covers_as_it_says() -> None:
    # Exact coverage at n=40: the binomial mass of the counts whose interval holds the truth.
    truth, total = 0.3, 40
    covered = sum(
        math.comb(total, k) * truth**k * (1 - truth) ** (total - k)
        for k in range(total + 1)
        if wilson_interval(k, total).low <= truth <= wilson_interval(k, total).high
    )
    assert 0.93 <= covered <= 0.98


def test_wilson_of_nothing_is_nan_and_of_nonsense_an_error() -> None:
    assert math.isnan(wilson_interval(0, 0).value)
    with pytest.raises(ConfigError, match="5 successes of 4"):
        wilson_interval(5, 4)
    with pytest.raises(ConfigError, match=r"confidence 95"):
        wilson_interval(1, 4, confidence=95)


def test_percentiles_against_a_plain_sort() -> None:
    values = [random.Random(0).random() for _ in range(101)]
    ordered = sorted(values)
    assert percentiles(values) == {"p50": ordered[50], "p90": ordered[90], "p99": ordered[99]}
    assert all(map(math.isnan, percentiles([]).values()))


def tasks(seed: int, shift: float) -> dict[str, list[float]]:
    rng = random.Random(seed)
    ease = {f"t{i}": random.Random(i).random() for i in range(30)}
    return {
        name: [float(rng.random() < min(1.0, p + shift)) for _ in range(rng.choice([2, 3, 4]))]
        for name, p in ease.items()
    }


def test_cluster_mean_equals_a_plain_bootstrap_loop() -> None:
    clusters = tasks(1, 0.0)
    rng, names, draws = random.Random(3), list(clusters), []
    for _ in range(2000):
        values = [v for name in rng.choices(names, k=len(names)) for v in clusters[name]]
        draws.append(sum(values) / len(values))
    interval = cluster_mean(clusters, seed=5)
    assert interval.value == pytest.approx(np.mean([v for vs in clusters.values() for v in vs]))
    assert interval.low == pytest.approx(np.quantile(draws, 0.025), abs=0.015)
    assert interval.high == pytest.approx(np.quantile(draws, 0.975), abs=0.015)


def test_clustering_widens_the_interval_of_repeated_samples() -> None:
    once = {i: [float(i % 2)] for i in range(40)}
    often = {i: [float(i % 2)] * 10 for i in range(40)}
    naive = wilson_interval(200, 400)
    assert cluster_mean(often).low == pytest.approx(cluster_mean(once).low, abs=1e-12)
    assert cluster_mean(often).low < naive.low - 0.05


def test_all_alike_is_not_certainty() -> None:
    assert cluster_mean({i: [0.0, 0.0] for i in range(10)}) == wilson_interval(0, 10)
    assert cluster_mean({i: [1.0] for i in range(10)}) == wilson_interval(10, 10)
    nothing = {i: [0.0] for i in range(10)}
    gained = paired_difference(nothing, {i: [1.0] for i in range(10)})
    assert gained.value == gained.high == 1.0
    assert 0.4 < gained.low < 0.8
    level = paired_difference(nothing, nothing)
    assert level.low == -level.high < 0


def test_tasks_that_are_alike_are_not_certainty_either() -> None:
    mixed = {i: [float(i % 2)] for i in range(10)}
    unknown = wilson_interval(0, 10).high  # share of tasks that may be different
    assert paired_difference(mixed, mixed) == Interval(0.0, -unknown, unknown)
    halves = cluster_mean({i: [0.0, 1.0] for i in range(10)})
    assert halves == Interval(0.5, 0.5 - unknown, 0.5 + unknown)
    alone = cluster_mean({"only": [0.0, 0.0, 0.0, 1.0]})
    assert (alone.low, alone.value) == (0.0, 0.25)
    assert alone.high > 0.9


def test_the_seed_alone_decides_the_draws() -> None:
    clusters = tasks(1, 0.0)
    assert cluster_mean(clusters, seed=1) == cluster_mean(clusters, seed=1)
    assert cluster_mean(clusters, seed=1) != cluster_mean(clusters, seed=2)


def test_paired_difference_equals_a_plain_bootstrap_loop() -> None:
    before, after = tasks(1, 0.0), tasks(2, 0.25)
    names, rng, draws = list(before), random.Random(9), []
    for _ in range(2000):
        drawn = rng.choices(names, k=len(names))
        b = [v for name in drawn for v in before[name]]
        a = [v for name in drawn for v in after[name]]
        draws.append(sum(a) / len(a) - sum(b) / len(b))
    interval = paired_difference(before, after)
    assert interval.low == pytest.approx(np.quantile(draws, 0.025), abs=0.015)
    assert interval.high == pytest.approx(np.quantile(draws, 0.975), abs=0.015)


def test_pairing_cancels_the_difficulty_of_tasks() -> None:
    before = {i: [float(i % 2)] * 4 for i in range(40)}
    after = {i: [float(i % 2)] * 3 + [1.0] for i in range(40)}
    interval = paired_difference(before, after)
    assert interval.value == pytest.approx(0.125)
    unpaired = cluster_mean(after).high - cluster_mean(after).low
    assert interval.high - interval.low < unpaired / 2


def test_paired_difference_uses_shared_tasks_alone() -> None:
    before: dict[str, list[float]] = {"a": [0.0], "b": [1.0], "only": [1.0], "empty": [1.0]}
    after: dict[str, list[float]] = {"a": [1.0], "b": [1.0], "other": [0.0], "empty": []}
    assert paired_difference(before, after).value == 0.5
    assert math.isnan(paired_difference({"a": [1.0]}, {"b": [1.0]}).value)


def test_intervals_read_well() -> None:
    assert f"{wilson_interval(5, 10)}" == "0.500 [0.237, 0.763]"
    assert f"{wilson_interval(5, 10):.0%}" == "50% [24%, 76%]"
