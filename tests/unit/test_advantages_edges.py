from __future__ import annotations

import numpy as np
import pytest

from agentic_gym.rewards.credit import estimators
from agentic_gym.rewards.credit.base import batch_of
from agentic_gym.rewards.credit.outcome import earned
from agentic_gym.trainers import advantages as adv
from agentic_gym.types import Outcome, TokenStream, Trajectory, Turn


def earned_by(rewards: list[float], turns: list[int]) -> list[float]:
    """Rewards of tokens that were sampled in these turns, of an episode with these turn rewards."""
    count = len(turns) + 1
    stream = TokenStream(
        ids=np.zeros(count, np.int32),
        sampled=np.asarray([False] + [True] * len(turns)),
        logprobs=np.zeros(count, np.float32),
        versions=np.zeros(count, np.int32),
        turns=np.asarray([-1, *turns], np.int32),
    )
    played = tuple(Turn("a", "o", reward) for reward in rewards)
    episode = Trajectory("t", "k", "g", 0, "p", played, stream, Outcome.FAILED, True, False)
    return [float(reward) for reward in earned(batch_of([episode]))]


def test_rewards_fall_on_the_last_sampled_token_of_their_turn() -> None:
    # Turn 2 was aborted before its first token.
    assert earned_by([1.0, 2.0, 4.0, 8.0], [0, 0, 1, 3, 3]) == [0, 1, 2 + 4, 0, 8]


def test_the_sum_of_rewards_is_kept_even_where_the_first_turn_has_no_token() -> None:
    assert sum(earned_by([1.0, 2.0], [1, 1])) == 3.0


def test_excluded_samples_shift_neither_mean_nor_deviation() -> None:
    """A crashed verifier is no reward of 0, and a rejected sample no member of the baseline."""
    alone = estimators.group_advantages([1.0, 3.0], ["g", "g"])
    beside = estimators.group_advantages(
        [1.0, 3.0, 100.0, float("nan")], ["g"] * 4, [True, True, False, False]
    )
    assert beside[:2].tolist() == alone.tolist()
    assert beside[2:].tolist() == [0.0, 0.0]


def test_the_only_included_member_of_a_group_gets_zero() -> None:
    assert estimators.group_advantages([100.0, 1.0], ["g", "g"], [False, True]).tolist() == [
        0.0,
        0.0,
    ]


def test_a_truncated_episode_is_worth_its_last_value() -> None:
    rewards, values = np.zeros(2), np.asarray([0.5, 0.5])
    ended, _ = estimators.gae(rewards, values, gamma=1.0, lam=1.0)
    cut, _ = estimators.gae(rewards, values, gamma=1.0, lam=1.0, bootstrap=0.5)
    assert ended.tolist() == [-0.5, -0.5]
    assert cut.tolist() == [0.0, 0.0]


def test_whitening() -> None:
    rng = np.random.default_rng(0)
    white = adv.whiten(rng.normal(3, 7, 500))
    assert white.mean() == pytest.approx(0, abs=1e-12)
    assert white.std() == pytest.approx(1)
    assert adv.whiten(np.full(5, 0.1)).tolist() == [0.0] * 5
    assert len(adv.whiten(np.zeros(0))) == 0


def test_explained_variance() -> None:
    returns = np.asarray([0.0, 1.0, 2.0])
    assert adv.explained_variance(returns, returns) == 1.0
    assert adv.explained_variance(np.zeros(3), returns) == 0.0
    assert adv.explained_variance(returns, np.ones(3)) == 0.0
    assert adv.explained_variance(np.zeros(0), np.zeros(0)) == 0.0
