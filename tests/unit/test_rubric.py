"""Rewards of one's own: added by weight, logged apart, tried before they are trusted."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from agentic_gym.errors import ConfigError, EnvContractError
from agentic_gym.rewards import rubric as module
from agentic_gym.rewards.rubric import Rubric, check_reward, find_reward, register_reward
from agentic_gym.types import Outcome, Trajectory, Turn


@pytest.fixture(autouse=True)
def own_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names registered by a test end with it."""
    monkeypatch.setattr(module, "_registered", {})


def episode(
    *rewards: float, outcome: Outcome = Outcome.FAILED, name: str = "e1", cut: bool = False
) -> Trajectory:
    turns = tuple(Turn(f"action {k}", "o", reward) for k, reward in enumerate(rewards))
    return Trajectory(
        name, "k", "g", 0, "p", turns, None, outcome, not cut, cut, metrics={"kept": 1.0}
    )


def turns_taken(trajectory: Trajectory) -> float:
    return float(len(trajectory.turns))


class Late:
    """Pays each turn its number."""

    def __init__(self, factor: float = 1.0) -> None:
        self._factor = factor

    def score(self, trajectory: Trajectory) -> list[float]:
        return [self._factor * k for k in range(len(trajectory.turns))]


LATE_TWICE = Late(2.0)


class NeedsMore:
    def __init__(self, factor: float) -> None:
        self.factor = factor

    def score(self, trajectory: Trajectory) -> float:
        return self.factor


class NoScore:
    pass


def test_rewards_are_added_by_weight_and_logged_apart() -> None:
    register_reward("turns")(turns_taken)
    register_reward("late")(Late)
    before = episode(0.5, 0.0, 1.0)
    after = Rubric({"turns": -0.1, "late": 0.2}).apply(before)
    assert [turn.reward for turn in after.turns] == pytest.approx([0.5, 0.2, 1.0 + 0.4 - 0.3])
    assert after.metrics == {"kept": 1.0, "reward/turns": 3.0, "reward/late": 3.0}
    assert [turn.reward for turn in before.turns] == [0.5, 0.0, 1.0]
    assert before.metrics == {"kept": 1.0}
    assert (after.outcome, after.trajectory_id) == (before.outcome, before.trajectory_id)
    assert [turn.action for turn in after.turns] == [turn.action for turn in before.turns]


def test_a_rubric_without_rewards_changes_nothing() -> None:
    before = episode(0.5, 1.0)
    after = Rubric({}).apply(before)
    assert (after.turns, after.metrics) == (before.turns, before.metrics)


def test_an_episode_without_turns_is_logged_and_earns_nothing() -> None:
    after = Rubric({f"{__name__}:turns_taken": 1.0, f"{__name__}:Late": 1.0}).apply(episode())
    assert after.turns == ()
    assert after.metrics[f"reward/{__name__}:turns_taken"] == 0.0


def test_broken_episodes_are_never_scored() -> None:
    asked: list[Trajectory] = []

    @register_reward("spy")
    def spy(trajectory: Trajectory) -> float:
        asked.append(trajectory)
        return 1.0

    before = episode(0.5, outcome=Outcome.INFRA_ERROR)
    assert Rubric({"spy": 1.0}).apply(before) is before
    assert asked == []


@pytest.mark.parametrize(
    ("score", "words"),
    [
        (math.nan, "is nan: it must be finite"),
        ([0.0, math.inf], r"is \[0.0, inf\]: it must be finite"),
        ([1.0], "of length 1: give one number for each of 2 turns"),
        (np.zeros((2, 2)), "give numbers"),
        (np.zeros(3), "of length 3"),
        (np.array(1.0), "give a number, or a sequence"),
        ("12", "is '12': give a number, or a sequence"),
        ({0: 1.0, 1: 2.0}, "give a number, or a sequence"),
        (None, "is None: give a number"),
        (["1", "2"], "give numbers"),
    ],
)
def test_what_is_no_score_makes_the_episode_an_infra_error(score: Any, words: str) -> None:
    register_reward("odd")(lambda trajectory: score)
    after = Rubric({"odd": 1.0}).apply(episode(0.5, 1.0, outcome=Outcome.SOLVED))
    assert after.outcome is Outcome.INFRA_ERROR
    assert (after.terminated, after.truncated) == (False, False)
    assert after.error is not None
    assert "reward 'odd' of episode 'e1'" in after.error
    with pytest.raises(ConfigError, match=words):
        check_reward(find_reward("odd"), [episode(0.5, 1.0)], name="odd")


@pytest.mark.parametrize(
    "score", [1, True, np.float32(0.5), (1.0, 2.0), np.arange(2.0), [np.float64(1), 2]]
)
def test_numbers_of_any_kind_are_scores(score: Any) -> None:
    register_reward("fine")(lambda trajectory: score)
    check_reward(find_reward("fine"), [episode(0.0, 0.0)])
    after = Rubric({"fine": 1.0}).apply(episode(0.0, 0.0))
    assert after.outcome is Outcome.FAILED
    assert after.reward == pytest.approx(float(np.sum(score)))
    assert all(type(turn.reward) is float for turn in after.turns)


def test_a_reward_that_raises_costs_its_episode_and_a_wrong_setup_the_run() -> None:
    def fragile(trajectory: Trajectory) -> float:
        if trajectory.trajectory_id == "setup":
            raise EnvContractError("no such fact")
        return 1 / trajectory.reward

    register_reward("fragile")(fragile)
    rubric = Rubric({"fragile": 1.0})
    assert rubric.apply(episode(0.5)).reward == 2.5
    after = rubric.apply(episode(0.0))
    assert after.outcome is Outcome.INFRA_ERROR
    assert after.error is not None
    assert after.error.startswith("reward 'fragile' broke\nTraceback")
    assert "ZeroDivisionError" in after.error
    with pytest.raises(EnvContractError):
        rubric.apply(episode(0.5, name="setup"))
    with pytest.raises(ConfigError, match="of episode 'e1' raised ZeroDivisionError"):
        check_reward(fragile, [episode(0.0)])


def test_names_and_import_paths_find_rewards() -> None:
    assert register_reward("turns")(turns_taken) is turns_taken
    assert find_reward("turns") is turns_taken
    assert find_reward(f"{__name__}:turns_taken") is turns_taken
    assert find_reward(f"{__name__}:Late")(episode(0.0, 0.0)) == [0.0, 1.0]
    assert find_reward(f"{__name__}:LATE_TWICE")(episode(0.0, 0.0)) == [0.0, 2.0]
    register_reward("turns")(turns_taken)
    with pytest.raises(ConfigError, match=f"'turns' is taken by {__name__}.turns_taken"):
        register_reward("turns")(Late)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("turn", "no reward 'turn'. Did you mean"),
        ("nothing_like_it", "Registered: turns"),
        ("no_such_module:f", "cannot be imported"),
        (":f", "cannot be imported"),
        (f"{__name__}:no_such_name", "cannot be imported"),
        (f"{__name__}:NoScore", "is a class without a method score"),
        (f"{__name__}:NeedsMore", "cannot be made without arguments"),
        ("math:pi", "is 3.14.*: neither a function nor with score"),
    ],
)
def test_what_is_no_reward_is_refused(name: str, words: str) -> None:
    register_reward("turns")(turns_taken)
    with pytest.raises(ConfigError, match=words):
        Rubric({name: 1.0})


@pytest.mark.parametrize("name", ["", "a:b", "a/b", " a"])
def test_names_that_metrics_and_paths_cannot_have_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="cannot name a reward"):
        register_reward(name)


@pytest.mark.parametrize("weight", [math.nan, math.inf, "1", True])
def test_weights_are_finite_numbers(weight: Any) -> None:
    with pytest.raises(ConfigError, match="the weight of reward 'turns' is"):
        Rubric({"turns": weight})


def test_a_check_finds_what_changes_on_a_repeat() -> None:
    counter: Iterator[int] = iter(range(10))
    register_reward("counter")(lambda trajectory: next(counter))
    with pytest.raises(ConfigError, match=r"'counter' of episode 'e1' is \[0.0\], and \[1.0\]"):
        Rubric({"counter": 1.0}).check([episode(0.0)])


def test_a_check_gives_up_what_takes_too_long() -> None:
    never = threading.Event()

    def waits(trajectory: Trajectory) -> float:
        return float(never.wait(5.0))

    with pytest.raises(
        ConfigError, match=r"'waits' of episode 'e1' took longer than limit_s=0\.02"
    ):
        check_reward(waits, [episode(0.0)], limit_s=0.02)
    never.set()


def test_a_check_names_what_leaves_the_interpreter() -> None:
    def leaves(trajectory: Trajectory) -> float:
        raise SystemExit(0)

    with pytest.raises(ConfigError, match="raised SystemExit"):
        check_reward(leaves, [episode(0.0)])


def test_a_check_needs_an_episode_that_did_not_break() -> None:
    broken = episode(0.0, outcome=Outcome.INFRA_ERROR)
    with pytest.raises(ConfigError, match="there is no episode that did not break"):
        check_reward(turns_taken, [broken])
    with pytest.raises(ConfigError, match="limit_s=0 must be positive"):
        check_reward(turns_taken, [episode(0.0)], limit_s=0)
    check_reward(Late(), [broken, episode(0.0), episode(), episode(1.0, 2.0, cut=True)])
