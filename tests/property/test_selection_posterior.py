"""The posteriors against brute force, and against an observer that keeps everything."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_gym.trainers.selection.base import GroupResult, TaskFacts
from agentic_gym.trainers.selection.posterior import Posteriors, beta_cdf, beta_interval

quick: Callable[..., settings] = lambda n: settings(  # noqa: E731
    deadline=None, derandomize=True, max_examples=n
)
counts = st.floats(0.05, 80.0)
tasks = [TaskFacts(f"t{i}", f"class{i % 2}", difficulty=0.3 if i == 4 else None) for i in range(5)]
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


results = st.lists(
    st.builds(
        lambda task, solved, more: GroupResult(0, f"t{task}", solved, solved + more),
        st.integers(0, 4),
        st.integers(0, 8),
        st.integers(0, 8),
    ),
    max_size=6,
)
history = st.lists(st.tuples(st.integers(1, 4), results), max_size=8)


@quick(70)
@given(history, st.floats(0.2, 1.0), st.randoms(use_true_random=False), st.integers(0, 8))
def test_evidence_is_the_discounted_sum_in_any_order_and_over_any_restart(
    history: list[tuple[int, list[GroupResult]]], discount: float, shuffler: object, cut: int
) -> None:
    first, second = (Posteriors(tasks, discount=discount) for _ in range(2))
    seen: list[tuple[int, GroupResult]] = []
    update = 0
    for number, (step, batch) in enumerate(history):
        update += step
        seen += [(update, result) for result in batch]
        first.observe(update, batch)
        mixed = list(batch)
        shuffler.shuffle(mixed)  # type: ignore[attr-defined]
        second.observe(update, mixed)
        if number == cut:
            saved = json.loads(json.dumps(second.state_dict()))
            second = Posteriors(tasks, discount=discount)
            second.load_state_dict(saved)
    assert first.state_dict() == second.state_dict()
    assert np.array_equal(first.parameters(), second.parameters())
    alpha, beta = first.parameters()
    prior = first.prior_mean()
    for place, task in enumerate(tasks):
        own = [(discount ** (update - when), r) for when, r in seen if r.task_id == task.task_id]
        solved = sum(weight * r.solved for weight, r in own)
        failed = sum(weight * (r.total - r.solved) for weight, r in own)
        assert math.isclose(alpha[place], prior[place] + solved, abs_tol=0.01)
        assert math.isclose(beta[place], 1 - prior[place] + failed, abs_tol=0.01)
    assert all(0 < value < 1 for value in first.mean())
