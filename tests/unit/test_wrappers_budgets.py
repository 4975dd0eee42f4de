"""Budgets and reminders."""

import itertools
import math
import pickle
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest

from agentic_gym.errors import ConfigError, EnvContractError
from agentic_gym.spaces import UnicodeText
from agentic_gym.testing import EchoEnv
from agentic_gym.tools import format_action
from agentic_gym.types import Outcome
from agentic_gym.wrappers import GoalReminder, TimeLimit, TokenBudget, TurnLimit

ECHO = format_action([("echo", {"text": "hi"})])
STOP = format_action([("stop", {})])
Env = gymnasium.Env[str, str]


class Graded(EchoEnv):
    """Pays 0.25 for unfinished work, and counts how often it was asked."""

    concluded = 0

    def conclude_truncated(self, reason: str) -> tuple[float, Outcome]:
        self.concluded += 1
        return 0.25, Outcome.SOLVED


def words(text: str) -> int:
    return len(text.split())


class Clock:
    """A clock that is set by hand."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def play(env: Env, actions: list[str]) -> list[tuple[str, Any, bool, bool, dict[str, Any]]]:
    env.reset(seed=0)
    return [env.step(action) for action in actions]


def test_turn_limit_truncates_with_the_last_reward_and_the_outcome() -> None:
    env = TurnLimit(Graded(step_reward=-0.1), 3)
    for _ in range(2):
        steps = play(env, [ECHO] * 3)
        assert [s[1] for s in steps] == [-0.1, -0.1, 0.15]
        assert [s[2:4] for s in steps] == [(False, False), (False, False), (False, True)]
        assert steps[2][4]["outcome"] == "solved"
        assert steps[2][4]["truncation_reason"] == "turn limit of 3"
        assert steps[2][4]["results"][0].content == "hi"
        assert "outcome" not in steps[1][4]


def test_an_end_by_the_task_is_not_a_truncation() -> None:
    env = TurnLimit(Graded(), 2)
    *_, reward, terminated, truncated, info = play(env, [ECHO, STOP])[-1]
    assert (reward, terminated, truncated) == (1.0, True, False)
    assert info["outcome"] == "solved"
    assert "truncation_reason" not in info
    assert env.unwrapped.concluded == 0  # type: ignore[attr-defined]


def test_token_budget_counts_task_actions_and_observations() -> None:
    env = TokenBudget(EchoEnv(task="one two three"), max_tokens=13, count=words)
    one_turn = words(ECHO) + words("hi")
    assert 3 + one_turn < 13 <= 3 + 2 * one_turn
    steps = play(env, [ECHO, ECHO])
    assert [s[3] for s in steps] == [False, True]
    assert steps[1][4]["truncation_reason"] == "token budget of 13"
    assert [s[3] for s in play(env, [ECHO, ECHO])] == [False, True]


def test_time_limit_counts_from_the_reset() -> None:
    clock = Clock()
    env = TimeLimit(EchoEnv(), seconds=10, clock=clock)
    for _ in range(2):
        env.reset()
        clock.now += 9.9
        assert env.step(ECHO)[3] is False
        clock.now += 0.1
        *_, truncated, info = env.step(ECHO)
        assert truncated
        assert info["truncation_reason"] == "time limit of 10 s"
        clock.now += 5


BUDGETS: list[Callable[[Env], Env]] = [
    lambda env: TurnLimit(env, 2),
    lambda env: TokenBudget(env, 10, words),
    lambda env: TimeLimit(env, 1, itertools.count().__next__),
    lambda env: GoalReminder(env, every_turns=1),
]


@pytest.mark.parametrize("order", list(itertools.permutations(BUDGETS)))
def test_wrappers_stack_in_any_order_and_truncate_once(
    order: tuple[Callable[[Env], Env], ...],
) -> None:
    inner = Graded(task="a b")
    env: Env = inner
    for wrap in order:
        env = wrap(env)
    env.reset()
    for _ in range(9):
        observation, reward, _, truncated, info = env.step(ECHO)
        assert observation in env.observation_space
        if truncated:
            break
    assert truncated
    assert inner.concluded == 1
    assert reward == 0.25
    assert info["outcome"] == "solved"


def test_goal_reminder_by_turns() -> None:
    env = GoalReminder(EchoEnv(task="Say hi."), every_turns=2)
    for _ in range(2):
        steps = play(env, [ECHO, ECHO, ECHO, ECHO, STOP])
        assert [s[0] for s in steps] == [
            "hi",
            "hi\n\nReminder of the task:\nSay hi.",
            "hi",
            "hi\n\nReminder of the task:\nSay hi.",
            "stopped",
        ]
        assert steps[1][4]["messages"] == [
            {"role": "tool", "tool_call_id": "call_0", "name": "echo", "content": "hi"},
            {"role": "user", "content": "Reminder of the task:\nSay hi."},
        ]
        assert len(steps[0][4]["messages"]) == 1


def test_the_last_observation_gets_no_reminder() -> None:
    env = GoalReminder(TurnLimit(EchoEnv(), 1), every_turns=1)
    assert play(env, [ECHO])[0][0] == "hi"


def test_goal_reminder_by_tokens() -> None:
    one_turn = words(ECHO) + 1
    env = GoalReminder(EchoEnv(), every_tokens=2 * one_turn, count=words)
    reminded = ["Reminder" in s[0] for s in play(env, [ECHO] * 5)]
    assert reminded == [False, True, False, True, False]


def test_a_long_task_is_cut_in_the_reminder_and_the_space_has_room() -> None:
    inner = EchoEnv(task="t" * 10_000)
    inner.max_observation_chars = 10_000
    env = GoalReminder(inner, every_turns=1, max_chars=500)
    env.reset()
    observation, *_ = env.step(format_action([("echo", {"text": "e" * 10_000})]))
    assert len(observation) == 10_000 + 2 + len("Reminder of the task:\n") + 500
    assert env.observation_space == UnicodeText(len(observation))


def test_wrappers_can_be_pickled_and_made_again_from_the_spec() -> None:
    env = TurnLimit(GoalReminder(EchoEnv(), every_turns=2), max_turns=3)
    env.reset(seed=0)
    env.step(ECHO)
    twin = pickle.loads(pickle.dumps(env))
    assert [twin.step(ECHO)[:4], twin.step(ECHO)[:4]] == [env.step(ECHO)[:4], env.step(ECHO)[:4]]


@pytest.mark.parametrize("value", [0, -1, True, "3", None, math.nan, 1j])
def test_budgets_are_positive_numbers(value: Any) -> None:
    with pytest.raises(ConfigError, match="max_turns must be a positive number"):
        TurnLimit(EchoEnv(), value)
    with pytest.raises(ConfigError, match="seconds must be"):
        TimeLimit(EchoEnv(), value)


def test_budgets_may_be_numbers_of_numpy() -> None:
    assert play(TurnLimit(EchoEnv(), np.int64(1)), [ECHO])[0][3]  # type: ignore[arg-type]


def test_misuse_says_what_to_do() -> None:
    with pytest.raises(ConfigError, match="every_turns or every_tokens"):
        GoalReminder(EchoEnv())
    with pytest.raises(ConfigError, match="every_tokens needs count"):
        GoalReminder(EchoEnv(), every_tokens=5)
    with pytest.raises(ConfigError, match="every_turns must be"):
        GoalReminder(EchoEnv(), every_turns=0)
    with pytest.raises(EnvContractError, match=r"Derive the environment from agentic_gym\.ToolEnv"):
        TurnLimit(gymnasium.make("CartPole-v1"), 3)
