"""The posteriors against an observer that keeps everything."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_gym.trainers.selection.base import GroupResult, TaskFacts
from agentic_gym.trainers.selection.posterior import Posteriors

quick: Callable[..., settings] = lambda n: settings(  # noqa: E731
    deadline=None, derandomize=True, max_examples=n
)
tasks = [TaskFacts(f"t{i}", f"class{i % 2}", difficulty=0.3 if i == 4 else None) for i in range(5)]


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
