"""What is said of reminders, from episodes alone; they are played in the integration test."""

from __future__ import annotations

import json
import math

import pytest

from agentic_gym.ablation import ablate_goal_reminder, compare
from agentic_gym.agent import PolicyAgent
from agentic_gym.errors import ConfigError
from agentic_gym.testing import EchoEnv
from agentic_gym.types import Outcome, Trajectory, Turn


def episodes(solved: int, *, of: int = 20, turns: int = 5) -> list[Trajectory]:
    """One episode a task; the first so many are solved."""
    outcomes = [Outcome.SOLVED] * solved + [Outcome.FAILED] * (of - solved)
    return [
        Trajectory(
            f"t{n}", f"task-{n}", "g", 0, "p", (Turn("a", "o", 0.0),) * turns, None, outcome, True, False
        )
        for n, outcome in enumerate(outcomes)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("solved", "words"),
    [
        ((4, 14), "it loses the request"),
        ((14, 4), "the reminder disturbs it"),
        ((10, 11), "No clear difference"),
    ],
)
def test_the_sentence_follows_the_interval(solved: tuple[int, int], words: str) -> None:
    found = compare(episodes(solved[0]), episodes(solved[1]), every=2)
    assert words in found.meaning
    assert found.difference.value == pytest.approx((solved[1] - solved[0]) / 20)
    assert found.meaning in found.render("mine")
    assert f"{5 * (solved[1] - solved[0]):+.1f} [" in found.render("mine")


def test_a_reminder_that_nobody_read_proves_nothing() -> None:
    assert compare(episodes(4), episodes(14, turns=3), every=2).met == 20
    found = compare(episodes(4), episodes(14, turns=2), every=2)
    assert found.met == 0
    assert "nothing is learned" in found.meaning


def test_without_a_common_task_there_is_no_number() -> None:
    broken = [Trajectory("x", "k", "g", 0, "", (Turn("a", "o", 0.0),) * 9, None, Outcome.INFRA_ERROR,
                         False, False, error="gone")]  # fmt: skip
    found = compare(broken, broken, every=2)
    assert math.isnan(found.difference.value)
    assert "infra errors" in found.meaning
    kept = json.loads(found.to_json())
    assert kept["difference"] == {"value": None, "low": None, "high": None}
    assert "gone" in found.render()


def test_reminding_never_is_refused() -> None:
    with pytest.raises(ConfigError, match="every=0"):
        ablate_goal_reminder(
            EchoEnv, lambda _: PolicyAgent(lambda _: ""), every=0, task_ids=["a"], progress=False
        )
