"""Advantages against the definition: sums over all later steps, computed the slow way."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_gym.rewards.credit import base, estimators

seeds = st.integers(0, 2**31 - 1)
unit = st.floats(0, 1)
prop = settings(deadline=None, derandomize=True, max_examples=80)


def slow_gae(
    rewards: base.Floats, values: base.Floats, gamma: float, lam: float, bootstrap: float
) -> list[float]:
    """A_k = Σ_j (γλ)^j δ_{k+j}."""
    following = [*values[1:], bootstrap]
    deltas = [r + gamma * f - v for r, f, v in zip(rewards, following, values, strict=True)]
    return [
        sum((gamma * lam) ** j * delta for j, delta in enumerate(deltas[k:]))
        for k in range(len(deltas))
    ]


@prop
@given(seed=seeds, steps=st.integers(1, 12), gamma=unit, lam=unit, bootstrap=st.floats(-2, 2))
def test_gae_is_the_sum_of_discounted_errors(
    seed: int, steps: int, gamma: float, lam: float, bootstrap: float
) -> None:
    rng = np.random.default_rng(seed)
    rewards, values = rng.normal(size=steps), rng.normal(size=steps)
    advantages, returns = estimators.gae(rewards, values, gamma=gamma, lam=lam, bootstrap=bootstrap)
    np.testing.assert_allclose(
        advantages, slow_gae(rewards, values, gamma, lam, bootstrap), atol=1e-10
    )
    np.testing.assert_allclose(returns, advantages + values)


@prop
@given(seed=seeds, steps=st.integers(1, 12), gamma=unit, bootstrap=st.floats(-2, 2))
def test_with_lambda_one_the_target_is_the_discounted_return(
    seed: int, steps: int, gamma: float, bootstrap: float
) -> None:
    rng = np.random.default_rng(seed)
    rewards, values = rng.normal(size=steps), rng.normal(size=steps)
    _, returns = estimators.gae(rewards, values, gamma=gamma, lam=1.0, bootstrap=bootstrap)
    for k in range(steps):
        later = sum(gamma**j * r for j, r in enumerate(rewards[k:]))
        np.testing.assert_allclose(returns[k], later + gamma ** (steps - k) * bootstrap, atol=1e-10)


@prop
@given(
    seed=seeds,
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=6),
    gamma=unit,
    lam=unit,
    bootstrap=st.floats(-2, 2),
)
def test_turn_gae_is_gae_over_turns(
    seed: int, sizes: list[int], gamma: float, lam: float, bootstrap: float
) -> None:
    """Only the value before a turn's first token counts, and its tokens share one advantage."""
    rng = np.random.default_rng(seed)
    turns = np.repeat(np.arange(len(sizes)) * 2, sizes)  # turns without a sampled token are absent
    rewards, values = rng.normal(size=len(turns)), rng.normal(size=len(turns))
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    per_turn = np.asarray([rewards[f : f + n].sum() for f, n in zip(first, sizes, strict=True)])
    expected = slow_gae(per_turn, values[first], gamma, lam, bootstrap)
    advantages, returns = estimators.turn_gae(
        rewards, values, turns, gamma=gamma, lam=lam, bootstrap=bootstrap
    )
    np.testing.assert_allclose(advantages, np.repeat(expected, sizes), atol=1e-10)
    np.testing.assert_allclose(returns, np.repeat(expected + values[first], sizes), atol=1e-10)
    assert base.turn_starts(turns).nonzero()[0].tolist() == first.tolist()


@prop
@given(
    scores=st.lists(
        st.tuples(st.floats(-5, 5), st.sampled_from("abc"), st.booleans()), min_size=1, max_size=12
    )
)
def test_group_advantages_against_a_loop(scores: list[tuple[float, str, bool]]) -> None:
    returns = [s if kept else float("nan") for s, _, kept in scores]
    groups = [g for _, g, _ in scores]
    included = [kept for _, _, kept in scores]
    result = estimators.group_advantages(returns, groups, included, scale="none")
    for i, (score, group, kept) in enumerate(scores):
        own = [s for s, g, k in scores if g == group and k]
        expected = score - sum(own) / len(own) if kept else 0.0
        np.testing.assert_allclose(result[i], expected, atol=1e-9)


@prop
@given(reward=st.floats(-1e6, 1e6), size=st.integers(1, 9))
def test_equal_rewards_give_exactly_zero(reward: float, size: int) -> None:
    for scale in ("std", "none"):
        result = estimators.group_advantages([reward] * size, ["g"] * size, scale=scale)
        assert result.tolist() == [0.0] * size
