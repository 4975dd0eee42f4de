from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

from agentic_gym.envs.swe.settings import reward_weights
from agentic_gym.errors import ConfigError
from agentic_gym.rewards.outcome import (
    RewardConfig,
    outcome_reward,
    progress_reward,
    turn_reward,
)
from agentic_gym.types import Outcome


@pytest.mark.parametrize("outcome", [None, *Outcome])
def test_only_solving_pays(outcome: Outcome | None) -> None:
    expected = 2.0 if outcome is Outcome.SOLVED else 0.0
    assert outcome_reward(RewardConfig(solve=2.0), outcome) == expected


def test_what_was_submitted_and_refused_can_cost() -> None:
    config = RewardConfig(failed=-0.5)
    costs = {outcome for outcome in Outcome if outcome_reward(config, outcome) == -0.5}
    assert costs == {Outcome.FAILED, Outcome.SUSPECTED_HACK}


def test_progress_telescopes_whatever_the_path() -> None:
    config = RewardConfig(progress=0.2)
    path = [0.25, 0.5, 0.0, 1.0, 0.75]
    steps = itertools.pairwise(path)
    total = sum(progress_reward(config, before, after) for before, after in steps)
    assert total == pytest.approx(0.2 * (0.75 - 0.25))


def test_a_loop_earns_nothing_and_turns_cost() -> None:
    config = RewardConfig()
    loop = progress_reward(config, 0.2, 0.9) + progress_reward(config, 0.9, 0.2)
    assert loop == pytest.approx(0.0)
    assert turn_reward(config) == turn_reward(config, mishap=True) == -0.01
    assert turn_reward(RewardConfig(mishap=-0.3), mishap=True) == pytest.approx(-0.31)


@pytest.mark.parametrize(
    "bad",
    [{"solve": math.nan}, {"progress": math.inf}, {"turn": 0.1}, {"mishap": 0.1}, {"failed": 0.1}],
)
def test_bad_weights_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(bad))):
        RewardConfig(**bad)


@pytest.mark.parametrize(
    ("reward", "words"),
    [
        ({"misshap": -1}, r"^reward\.misshap=-1 is not known\. Did you mean 'mishap'\?"),
        ({"mishap": "lots"}, r"^reward\.mishap='lots' is not a finite number"),
        ({"mishap": True}, r"^reward\.mishap=True is not a finite number"),
        (5, r"^reward=5 is no mapping.* solve, failed"),
    ],
)
def test_weights_from_a_file_are_explained(reward: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        reward_weights(reward)
