"""Potential differences on random episodes: sums that telescope, advantages that stay."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_gym.rewards.credit.base import CreditBatch, Floats, batch_of
from agentic_gym.rewards.credit.estimators import turn_gae
from agentic_gym.rewards.credit.process import ProcessCredit
from agentic_gym.types import Outcome, TokenStream, Trajectory, Turn

thorough = settings(derandomize=True, deadline=None, max_examples=80)
NAMES = ("parses", "imports", "error_gone", "fail_to_pass", "pass_to_pass")


def make_trajectory(rng: np.random.Generator, number: int) -> Trajectory:
    """Turns of any length, some without tokens and some without a state; now and then one more is begun."""
    turns, sampled, of_turn = [], [False], [-1]
    count = int(rng.integers(1, 7))
    extra = int(rng.integers(2))
    for k in range(count + extra):
        made = int(rng.integers(0, 4))
        sampled += [True] * made + [False]
        of_turn += [k] * (made + 1)
        info = {}
        if rng.random() < 0.7:
            info["state"] = dict(zip(NAMES, rng.random(5).tolist(), strict=True))
        if k == 0:
            info["base_state"] = dict(zip(NAMES, rng.random(5).tolist(), strict=True))
        if k < count:
            turns.append(Turn("a", "o", float(rng.normal()), info=info))
    stream = TokenStream(
        ids=np.zeros(len(sampled), np.int32),
        sampled=np.asarray(sampled),
        logprobs=np.zeros(len(sampled), np.float32),
        versions=np.zeros(len(sampled), np.int32),
        turns=np.asarray(of_turn, np.int32),
    )
    truncated = bool(extra or rng.integers(2))
    ended = bool(not truncated or rng.random() < 0.2)  # by both, now and then
    return Trajectory(
        f"t{number}",
        "k",
        "g",
        0,
        "p",
        tuple(turns),
        stream,
        Outcome.FAILED,
        ended,
        truncated,
    )


def make_batch(seed: int) -> tuple[CreditBatch, Floats]:
    rng = np.random.default_rng(seed)
    trajectories = [make_trajectory(rng, number) for number in range(4)]
    batch = batch_of(trajectories, gamma=float(rng.choice([1.0, 0.9, 0.3])))
    return batch, rng.normal(size=len(batch.turns))


def is_open(trajectory: Trajectory) -> bool:
    return trajectory.truncated and not trajectory.terminated


def steps(batch: CreditBatch, part: slice, rewards: Floats) -> Floats:
    """Reward of each step that an estimator sees."""
    turns = batch.turns[part]
    return np.asarray([rewards[part][turns == turn].sum() for turn in dict.fromkeys(turns)])


@thorough
@given(seed=st.integers(0, 10**6), goes_on=st.booleans())
def test_discounted_returns_stay_but_for_what_an_open_end_keeps(seed: int, goes_on: bool) -> None:
    batch, given_rewards = make_batch(seed)
    credit = ProcessCredit(bootstrap_truncated=goes_on)
    after = credit.assign(batch, given_rewards)
    for trajectory, part in zip(batch.trajectories, batch.parts, strict=True):
        change = steps(batch, part, after) - steps(batch, part, given_rewards)
        potential = credit.potential(trajectory)
        assert potential is not None
        kept = 0.0
        if goes_on and is_open(trajectory) and len(change):
            kept = batch.gamma ** len(change) * (potential[-1] - potential[0])
        total = batch.gamma ** np.arange(len(change)) @ change
        assert total == pytest.approx(kept, rel=0, abs=1e-12)


@thorough
@given(seed=st.integers(0, 10**6), lam=st.sampled_from([0.0, 0.9, 1.0]))
def test_advantages_stay_where_the_critic_knows_the_potential(seed: int, lam: float) -> None:
    batch, given_rewards = make_batch(seed)
    rng = np.random.default_rng(seed)
    credit = ProcessCredit(bootstrap_truncated=True)
    after = credit.assign(batch, given_rewards)
    for trajectory, part in zip(batch.trajectories, batch.parts, strict=True):
        turns = batch.turns[part]
        if not len(turns):
            continue
        values, end = rng.normal(size=len(turns)), float(rng.normal())
        potential = credit.potential(trajectory)
        assert potential is not None
        relative = potential - potential[0]
        at = relative[np.minimum(turns, len(relative) - 1)]
        at[turns == turns[0]] = 0.0
        cut = is_open(trajectory)
        plain, _ = turn_gae(
            given_rewards[part], values, turns, gamma=batch.gamma, lam=lam,
            bootstrap=end if cut else 0.0,
        )  # fmt: skip
        shaped, _ = turn_gae(
            after[part], values - at, turns, gamma=batch.gamma, lam=lam,
            bootstrap=end - relative[-1] if cut else 0.0,
        )  # fmt: skip
        np.testing.assert_allclose(shaped, plain, atol=1e-12)


@thorough
@given(seed=st.integers(0, 10**6))
def test_only_the_last_token_of_a_turn_changes_and_trajectories_do_not_touch(seed: int) -> None:
    batch, given_rewards = make_batch(seed)
    after = ProcessCredit().assign(batch, given_rewards)
    for trajectory, part in zip(batch.trajectories, batch.parts, strict=True):
        turns = batch.turns[part]
        last = np.append(turns[1:] != turns[:-1], True) if len(turns) else np.zeros(0, bool)
        assert (after[part][~last] == given_rewards[part][~last]).all()
        alone = batch_of([trajectory], gamma=batch.gamma)
        again = ProcessCredit().assign(alone, given_rewards[part])
        assert (after[part] == again).all()
