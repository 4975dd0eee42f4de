"""What is offered for tests of others."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import pytest
from gymnasium.utils.env_checker import check_env

from agentic_gym.engines.scripted import ScriptedEngine
from agentic_gym.errors import ConfigError, TaskError
from agentic_gym.rollout import Launch, Rollout
from agentic_gym.testing import KeyEnv, TokenAgent
from agentic_gym.types import Outcome


def test_the_key_environment_keeps_gymnasiums_contract() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that its texts have no characters to draw from
        check_env(KeyEnv(), skip_render_check=True)


@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize("distractions", [0, 3])
def test_only_the_first_action_counts_and_pays_at_the_end(right: bool, distractions: int) -> None:
    def script(prompt: Sequence[int], request_id: str) -> list[int]:
        first = request_id.endswith("/0")
        return [2 if first and right else 3]

    engine = ScriptedEngine(script)
    with Rollout(
        lambda: KeyEnv(keys=3, distractions=distractions),
        lambda _: TokenAgent(engine, prompt=(9,), observation=None),
    ) as rollout:
        launch = Launch("t", "key-2", "g", 1, {"task_id": "key-2"})
        [trajectory] = rollout.collect([launch], progress=False)
    assert trajectory.outcome is (Outcome.SOLVED if right else Outcome.FAILED)
    assert [turn.reward for turn in trajectory.turns] == [0.0] * distractions + [float(right)]
    assert trajectory.tokens is not None
    first = 2 if right else 3
    assert trajectory.tokens.ids.tolist()[:4] == [9, 2, first, 0][: len(trajectory.tokens)]


def test_what_it_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError, match="keys=0"):
        KeyEnv(keys=0)
    with pytest.raises(TaskError, match="no task 'key-9'"):
        KeyEnv().reset(options={"task_id": "key-9"})
