"""Laws of the statistics under any input."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_gym.metrics import cluster_mean, paired_difference, pass_at_k, wilson_interval

binary = st.lists(st.sampled_from([0.0, 1.0]), max_size=4)
clusters = st.dictionaries(st.integers(0, 9), binary, max_size=8)


@settings(deadline=None, derandomize=True, max_examples=200)
@given(st.integers(1, 10_000).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))))
def test_wilson_holds_its_estimate_and_mirrors(case: tuple[int, int]) -> None:
    total, successes = case
    interval = wilson_interval(successes, total)
    assert 0 <= interval.low <= interval.value <= interval.high <= 1
    mirrored = wilson_interval(total - successes, total)
    assert math.isclose(interval.low, 1 - mirrored.high, abs_tol=1e-12)


@settings(deadline=None, derandomize=True, max_examples=200)
@given(st.integers(1, 500), st.data())
def test_pass_at_k_grows_with_k_and_with_correct_samples(samples: int, data: st.DataObject) -> None:
    correct = data.draw(st.integers(0, samples))
    k = data.draw(st.integers(1, samples))
    value = pass_at_k(samples, correct, k)
    assert 0 <= value <= 1
    assert pass_at_k(samples, correct, 1) <= value + 1e-12
    assert math.isclose(pass_at_k(samples, correct, 1), correct / samples, abs_tol=1e-9)
    if correct < samples:
        assert pass_at_k(samples, correct + 1, k) >= value - 1e-12


@settings(deadline=None, derandomize=True, max_examples=60)
@given(clusters, clusters)
def test_intervals_stay_in_range_and_a_swap_mirrors(
    before: dict[int, list[float]], after: dict[int, list[float]]
) -> None:
    interval = cluster_mean(before, num_draws=200)
    if any(before.values()):
        assert 0 <= interval.low <= interval.value <= interval.high <= 1
        assert interval.low < interval.high
    else:
        assert math.isnan(interval.value)
    there = paired_difference(before, after, num_draws=200)
    back = paired_difference(after, before, num_draws=200)
    if not math.isnan(there.value):
        assert -1 <= there.low < there.high <= 1
        assert math.isclose(there.value, -back.value, abs_tol=1e-12)
