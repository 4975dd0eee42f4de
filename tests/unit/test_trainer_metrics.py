"""What an update says of its batch."""

from __future__ import annotations

import numpy as np
import pytest

from agentic_gym.trainers.experience import Experience
from agentic_gym.trainers.update_metrics import describe
from agentic_gym.types import Outcome, TokenStream, Trajectory, Turn


def trajectory(logprobs: list[float], versions: list[int]) -> Trajectory:
    count = len(logprobs)
    stream = TokenStream(
        ids=np.arange(count + 1, dtype=np.int32),
        sampled=np.asarray([False] + [True] * count),
        logprobs=np.asarray([0.0, *logprobs], np.float32),
        versions=np.asarray([-1, *versions], np.int32),
        turns=np.asarray([-1] + [0] * count, np.int32),
    )
    return Trajectory("t", "k", "g", 0, "", (), stream, Outcome.FAILED, True, False)


def test_kl_between_versions_is_that_of_the_two_distributions() -> None:
    """Tokens in the proportions in which the sampler draws them: the estimate is then the KL itself."""
    sampler, policy = np.asarray([0.5, 0.3, 0.2]), np.asarray([0.2, 0.2, 0.6])
    drawn = np.repeat([0, 1, 2], [5, 3, 2])
    old = np.log(sampler[drawn]).tolist()
    batch = [trajectory(old, [3] * 10), trajectory([-1.0, -2.0], [5, 5])]
    experience = Experience.gather(batch, version=5)
    experience.proximal = np.concatenate([np.log(policy[drawn]), [-1.0, -2.0]])
    facts = describe(experience)
    wanted = float((sampler * np.log(sampler / policy)).sum())
    assert facts["version_kl_2"] == pytest.approx(wanted, rel=1e-6)
    assert facts["version_kl_0"] == 0.0
    assert facts["version_kl"] == pytest.approx(wanted * 10 / 12, rel=1e-6)
    assert "version_kl_1" not in facts


def long_one(turns: int, sizes: list[int]) -> Trajectory:
    of_turn = np.repeat(np.arange(len(sizes)), sizes)
    count = len(of_turn)
    stream = TokenStream(
        ids=np.arange(count + 1, dtype=np.int32),
        sampled=np.asarray([False] + [True] * count),
        logprobs=np.zeros(count + 1, np.float32),
        versions=np.zeros(count + 1, np.int32),
        turns=np.asarray([-1, *of_turn], np.int32),
    )
    played = tuple(Turn("a", "o", 0.0) for _ in range(turns))
    return Trajectory("t", "k", "g", 0, "", played, stream, Outcome.FAILED, True, False)


def test_late_credit_is_the_absolute_share_of_the_last_turn_of_long_episodes() -> None:
    # Two turns are too few; the second episode's last turn was ended before a token was sampled.
    batch = [long_one(3, [2, 1, 2]), long_one(3, [1, 2]), long_one(2, [1, 1])]
    experience = Experience.gather(batch, version=0)
    experience.rewards = np.asarray([1.0, -1, 0, -0.5, 0.5, 4, 0, -2, 50, 100])
    assert describe(experience)["late_credit_share"] == pytest.approx((1 + 2) / (3 + 6))
    experience.rewards[:8] = 0.0
    assert "late_credit_share" not in describe(experience)
