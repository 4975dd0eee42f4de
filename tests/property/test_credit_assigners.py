"""Credit assigners against plain loops, and what they promise to leave as it was."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_gym.rewards.credit.attention import (
    AttentionCredit,
    CausalAttentionCredit,
    PreplanAnchor,
)
from agentic_gym.rewards.credit.base import AttentionFacts, CreditBatch, batch_of
from agentic_gym.rewards.credit.estimators import (
    adaptive_lambda,
    gae,
    token_gae,
    turn_gae,
)
from agentic_gym.rewards.credit.gigpo import gigpo_advantages
from agentic_gym.rewards.credit.outcome import OutcomeCredit, earned
from agentic_gym.types import Outcome, TokenStream, Trajectory, Turn

thorough = settings(derandomize=True, deadline=None, max_examples=60)


def make_trajectory(
    rng: np.random.Generator, *, number: int = 0, group: str = "g", states: int = 3
) -> Trajectory:
    """Some turns, each with an observation; some were aborted before a token was sampled."""
    turns, sampled, of_turn = [], [False], [-1]
    for turn in range(int(rng.integers(1, 6))):
        made = int(rng.integers(0, 5)) if turn else int(rng.integers(1, 5))
        sampled += [True] * made + [False] * 2
        of_turn += [turn] * (made + 2)
        turns.append(Turn("a", f"state {rng.integers(states)}", float(np.round(rng.normal(), 3))))
    count = len(sampled)
    stream = TokenStream(
        ids=np.arange(count, dtype=np.int32),
        sampled=np.asarray(sampled),
        logprobs=np.zeros(count, np.float32),
        versions=np.where(sampled, 0, -1).astype(np.int32),
        turns=np.asarray(of_turn, np.int32),
    )
    return Trajectory(
        f"t{number}", "k", group, number, "start", tuple(turns), stream, Outcome.FAILED, True, False
    )


def facts_of(rng: np.random.Generator, batch: CreditBatch) -> list[AttentionFacts | None]:
    found: list[AttentionFacts | None] = []
    for part in batch.parts:
        n = part.stop - part.start
        k = len(set(batch.turns[part].tolist()))
        turns = np.tril(rng.random((k, k)) / max(k, 1), -1)
        found.append(AttentionFacts(rng.random(n), turns, 10 * rng.random(n), rng.random(n)))
    return found


def make_batch(seed: int, size: int = 4) -> tuple[CreditBatch, np.random.Generator]:
    rng = np.random.default_rng(seed)
    trajectories = [make_trajectory(rng, number=i, group=f"g{i % 2}") for i in range(size)]
    gamma = float(rng.choice([1.0, 0.9]))
    plain = batch_of(trajectories, gamma=gamma)
    return batch_of(trajectories, gamma=gamma, attention=facts_of(rng, plain)), rng


seeds = st.integers(0, 10_000)


@thorough
@given(seeds)
def test_what_is_earned_adds_up_to_the_return_and_stands_at_the_ends_of_turns(seed: int) -> None:
    batch, _ = make_batch(seed)
    rewards = earned(batch)
    for trajectory, part in zip(batch.trajectories, batch.parts, strict=True):
        assert math.isclose(rewards[part].sum(), trajectory.reward, abs_tol=1e-9)
        expected = np.zeros(part.stop - part.start)
        turns = batch.turns[part]
        for number, turn in enumerate(trajectory.turns):
            before = [i for i in range(len(turns)) if turns[i] <= number]
            expected[before[-1] if before else 0] += turn.reward
        np.testing.assert_allclose(rewards[part], expected, atol=1e-12)


@thorough
@given(seeds, st.sampled_from([0.0, 0.3, 1.0]), st.booleans())
def test_attention_keeps_the_return(seed: int, beta: float, per_turn: bool) -> None:
    batch, _ = make_batch(seed)
    before = earned(batch)
    kept = before.copy()
    after = AttentionCredit(beta, per_turn=per_turn).assign(batch, before)
    np.testing.assert_array_equal(before, kept)
    for part, facts in zip(batch.parts, batch.attention, strict=True):
        assert facts is not None
        assert math.isclose(after[part].sum(), before[part].sum(), abs_tol=1e-6)
        weights = facts.deciding / facts.deciding.sum()
        if not per_turn:
            expected = beta * before[part].sum() * weights + (1 - beta) * before[part]
            np.testing.assert_allclose(after[part], expected, atol=1e-9)
        turns = batch.turns[part]
        for turn in set(turns.tolist()):  # to a turn the two are the same
            of_it = turns == turn
            expected_sum = (
                beta * before[part].sum() * weights[of_it].sum()
                + (1 - beta) * before[part][of_it].sum()
            )
            assert math.isclose(after[part][of_it].sum(), expected_sum, abs_tol=1e-9)


@pytest.mark.parametrize("bad", ["missing", "nan", "inf", "negative", "zero"])
def test_attention_that_cannot_be_used_leaves_everything_at_the_end(bad: str) -> None:
    batch, _ = make_batch(3)
    first = batch.attention[0]
    assert first is not None
    weights = first.deciding.copy()
    weights[0] = {"nan": math.nan, "inf": math.inf, "negative": -0.5}.get(bad, weights[0])
    if bad == "zero":
        weights[:] = 0.0
    broken = AttentionFacts(
        weights, first.turns * math.nan, first.reach * math.nan, first.influence
    )
    spoiled = batch_of(
        batch.trajectories,
        gamma=batch.gamma,
        attention=[None if bad == "missing" else broken, *batch.attention[1:]],
    )
    before = earned(batch)
    after = AttentionCredit(1.0).assign(spoiled, before)
    part = batch.parts[0]
    np.testing.assert_allclose(after[part], OutcomeCredit().assign(batch, before)[part])
    assert spoiled.facts == {"credit_fallback": 1.0}
    whole = AttentionCredit(1.0).assign(batch, before)
    np.testing.assert_array_equal(after[part.stop :], whole[part.stop :])

    causal = CausalAttentionCredit().assign(spoiled, before)
    np.testing.assert_array_equal(causal[part], before[part])
    advantages = PreplanAnchor().modify(spoiled, before)
    np.testing.assert_array_equal(advantages[part], before[part])
    assert spoiled.facts == {"credit_fallback": 3.0}


@thorough
@given(seeds)
def test_the_causal_form_telescopes_and_never_looks_ahead(seed: int) -> None:
    """Discounted, the potentials of an episode add up to nothing; later turns change nothing before."""
    batch, rng = make_batch(seed)
    before = earned(batch)
    credit = CausalAttentionCredit(0.5)
    after = credit.assign(batch, before)
    changed = []
    for part, facts in zip(batch.parts, batch.attention, strict=True):
        assert facts is not None
        turns = batch.turns[part]
        numbers = np.unique(turns)
        added = [float((after - before)[part][turns == n].sum()) for n in numbers]
        discounted = sum(batch.gamma**k * r for k, r in enumerate(added))
        assert math.isclose(discounted, 0.0, abs_tol=1e-9)
        later = facts.turns.copy()
        if len(later) > 2:
            later[-1] = rng.random(len(later))
            later[-2] = rng.random(len(later))
        changed.append(AttentionFacts(facts.deciding, later, facts.reach, facts.influence))
    again = credit.assign(
        batch_of(batch.trajectories, gamma=batch.gamma, attention=changed), before
    )
    for part in batch.parts:
        turns = batch.turns[part]
        early = turns < (np.unique(turns)[-2] if len(np.unique(turns)) > 2 else np.inf)
        np.testing.assert_array_equal(again[part][early], after[part][early])


def plain_gae(
    rewards: Any, values: Any, discounts: Any, lam: float, bootstrap: float
) -> list[float]:
    """Sums of discounted one-step errors, written out."""
    following = [*values[1:], bootstrap]
    errors = [
        r + d * f - v for r, d, f, v in zip(rewards, discounts, following, values, strict=True)
    ]
    found = []
    for k in range(len(errors)):
        total, weight = 0.0, 1.0
        for j in range(k, len(errors)):
            total += weight * errors[j]
            weight *= lam * discounts[j]
        found.append(total)
    return found


@thorough
@given(seeds, st.sampled_from([0.0, 0.05, 0.5, 1.0]))
def test_estimators_equal_the_sums_written_out(seed: int, alpha: float) -> None:
    batch, rng = make_batch(seed, size=1)
    rewards, turns = earned(batch), batch.turns
    values, bootstrap = rng.normal(size=len(turns)), float(rng.normal())
    gamma, token_gamma, lam = 0.9, 0.99, 0.8
    count = len(turns)
    got, targets = token_gae(
        rewards, values, turns,
        gamma=gamma, token_gamma=token_gamma, lam=lam, alpha=alpha, bootstrap=bootstrap,
    )  # fmt: skip
    discounts = [
        token_gamma * (gamma if i == count - 1 or turns[i + 1] != turns[i] else 1.0)
        for i in range(count)
    ]
    used = adaptive_lambda(count, alpha) if alpha else lam
    np.testing.assert_allclose(
        got, plain_gae(rewards, values, discounts, used, bootstrap), atol=1e-9
    )
    critic = 1.0 if alpha else lam
    wanted = np.asarray(plain_gae(rewards, values, discounts, critic, bootstrap)) + values
    np.testing.assert_allclose(targets, wanted, atol=1e-9)

    got, targets = turn_gae(
        rewards, values, turns, gamma=gamma, lam=lam, alpha=alpha, bootstrap=bootstrap
    )
    numbers = np.unique(turns)
    per_turn = [float(rewards[turns == n].sum()) for n in numbers]
    firsts = [float(values[turns == n][0]) for n in numbers]
    used = adaptive_lambda(len(numbers), alpha) if alpha else lam
    by_turn = plain_gae(per_turn, firsts, [gamma] * len(numbers), used, bootstrap)
    for number, advantage in zip(numbers, by_turn, strict=True):
        np.testing.assert_allclose(got[turns == number], advantage, atol=1e-9)


def test_one_discount_is_the_same_as_many_equal_ones() -> None:
    rng = np.random.default_rng(0)
    rewards, values = rng.normal(size=9), rng.normal(size=9)
    one = gae(rewards, values, gamma=0.9, lam=0.7, bootstrap=0.4)
    many = gae(rewards, values, gamma=np.full(9, 0.9), lam=0.7, bootstrap=0.4)
    np.testing.assert_array_equal(one, many)


@thorough
@given(seeds, st.sampled_from([0.0, 1.0, 0.5]))
def test_gigpo_compares_steps_from_the_same_state(seed: int, omega: float) -> None:
    batch, _ = make_batch(seed, size=6)
    rewards = earned(batch)
    got = gigpo_advantages(batch, rewards, omega=omega, scale="none")
    steps: dict[tuple[str, str], list[float]] = {}
    to_go: dict[tuple[int, int], float] = {}
    key_of: dict[tuple[int, int], tuple[str, str]] = {}
    for row, (trajectory, part) in enumerate(zip(batch.trajectories, batch.parts, strict=True)):
        for k in range(len(trajectory.turns)):
            ahead = [
                batch.gamma ** (j - k) * rewards[part][batch.turns[part] == j].sum()
                for j in range(k, len(trajectory.turns))
            ]
            to_go[row, k] = float(sum(ahead))
            shown = trajectory.turns[k - 1].observation if k else trajectory.prompt
            key_of[row, k] = (trajectory.group_id, shown)
            steps.setdefault(key_of[row, k], []).append(to_go[row, k])
    for row, (trajectory, part) in enumerate(zip(batch.trajectories, batch.parts, strict=True)):
        mates = [
            float(rewards[p].sum())
            for t, p in zip(batch.trajectories, batch.parts, strict=True)
            if t.group_id == trajectory.group_id
        ]
        whole = float(rewards[part].sum()) - float(np.mean(mates))
        for position, turn in enumerate(batch.turns[part]):
            key = key_of[row, int(turn)]
            step = to_go[row, int(turn)] - float(np.mean(steps[key]))
            assert math.isclose(got[part][position], whole + omega * step, abs_tol=1e-9)


def test_gigpo_prefers_the_environments_own_name_of_a_state() -> None:
    rng = np.random.default_rng(1)
    trajectory = make_trajectory(rng)
    named = [Turn("a", f"text {i}", 0.0, info={"state_key": "same"}) for i in range(3)]
    one = Trajectory(
        "t", "k", "g", 0, "p", tuple(named), trajectory.tokens, Outcome.FAILED, True, False
    )
    from agentic_gym.rewards.credit.gigpo import state_keys

    assert state_keys(one) == ["p", "\0same", "\0same"]


@thorough
@given(seeds)
def test_anchors_gain_what_they_should_and_never_lose(seed: int) -> None:
    batch, rng = make_batch(seed)
    advantages = rng.normal(size=len(batch.turns))
    modifier = PreplanAnchor(share=0.5, factor=1.5, back=2)
    after = modifier.modify(batch, advantages)
    gains = after - advantages
    assert (gains >= -1e-12).all()
    for part, facts in zip(batch.parts, batch.attention, strict=True):
        assert facts is not None
        n = part.stop - part.start
        anchors = sorted(range(n), key=lambda i: (-facts.influence[i], i))[: int(0.5 * n)]
        total = sum(0.5 * max(0.0, float(advantages[part][i])) for i in anchors)
        assert math.isclose(float(gains[part].sum()), total, abs_tol=1e-9)
        reachable = {i - back for i in anchors for back in range(3)}
        assert all(gains[part][i] == 0 for i in range(n) if i not in reachable)
