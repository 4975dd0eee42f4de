"""The Beta distribution against brute force."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_gym.beta import beta_cdf, beta_interval

quick: Callable[..., settings] = lambda n: settings(  # noqa: E731
    deadline=None, derandomize=True, max_examples=n
)
counts = st.floats(0.05, 80.0)
nodes, node_weights = np.polynomial.legendre.leggauss(64)


def brute_force(a: float, b: float, x: float) -> float:
    """The integral of t^(a−1) (1−t)^(b−1), over the same from 0 to 1; Gauss-Legendre, piece by piece.

    Each end is integrated from a side of its own, with t = u^k, so that neither is singular.
    """

    def left(a: float, b: float, x: float) -> float:
        k = max(1.0, 2 / a)
        edges = np.linspace(0.0, 1.0, 33) ** 3 * x ** (1 / k)
        half = np.diff(edges)[:, None] / 2
        u = edges[:-1, None] + half * (nodes + 1)
        return float((half * node_weights * k * u ** (k * a - 1) * (1 - u**k) ** (b - 1)).sum())

    def below(x: float) -> float:
        return left(a, b, x) if x <= 0.5 else left(a, b, 0.5) + left(b, a, 0.5) - left(b, a, 1 - x)

    return below(x) / below(1.0)


@quick(150)
@given(counts, counts, st.floats(0.001, 0.999))
def test_the_incomplete_beta_function_is_the_integral(a: float, b: float, x: float) -> None:
    assert math.isclose(beta_cdf(a, b, x), brute_force(a, b, x), rel_tol=1e-6, abs_tol=1e-8)


@quick(100)
@given(st.floats(0.01, 1e4), st.floats(0.01, 1e4), st.lists(st.floats(0, 1), min_size=2))
def test_it_rises_from_0_to_1_and_is_symmetric(a: float, b: float, points: list[float]) -> None:
    values = [beta_cdf(a, b, x) for x in sorted(points)]
    assert all(0 <= value <= 1 for value in values)
    assert all(low <= high + 1e-9 for low, high in itertools.pairwise(values))
    x = 1 - points[0]  # so that 1 − x loses nothing
    assert math.isclose(beta_cdf(a, b, x) + beta_cdf(b, a, 1 - x), 1.0, abs_tol=1e-9)


@quick(40)
@given(st.floats(0.3, 60), st.floats(0.3, 60), st.floats(0.05, 0.99))
def test_an_interval_holds_its_share(a: float, b: float, confidence: float) -> None:
    interval = beta_interval(a, b, confidence=confidence)
    held = beta_cdf(a, b, interval.high) - beta_cdf(a, b, interval.low)
    assert math.isclose(held, confidence, abs_tol=1e-4)
