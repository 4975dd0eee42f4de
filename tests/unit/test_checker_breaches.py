"""check_env passes what keeps the contract, and names what each of these environments breaks."""

import itertools
import threading
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest

import agentic_gym
from agentic_gym.checker import check_env
from agentic_gym.errors import EnvContractError, ResetNeeded, SandboxDead, ToolDefinitionError
from agentic_gym.testing import EchoEnv, GuessEnv
from agentic_gym.tools import format_action, tool
from agentic_gym.types import Outcome
from agentic_gym.wrappers import TurnLimit

STOP = format_action([("stop", {})])


@pytest.mark.parametrize("env", [EchoEnv(), GuessEnv(), TurnLimit(EchoEnv(), 2)])
def test_good_environments_pass(env: Any) -> None:
    check_env(env, actions=[format_action([("echo", {"text": "a"})]), STOP])


class UnseededTask(EchoEnv):
    counter = itertools.count()

    def start(self, options: dict[str, Any]) -> str:
        super().start(options)
        return f"task {next(self.counter)}"


class UnseededAnswers(EchoEnv):
    counter = itertools.count()

    @tool
    def echo(self, text: str) -> str:
        """Repeats."""
        return f"{text}{next(self.counter)}"


class StateLeaks(EchoEnv):
    """The reward depends on the episode before."""

    ends = 0

    @tool
    def stop(self) -> str:
        """Ends."""
        self.ends += 1
        return super().stop()

    def reward(self) -> float:
        return float(self.ends)


class CrashesOnText(EchoEnv):
    @tool
    def echo(self, text: str) -> str:
        """Repeats."""
        return text.encode("ascii").decode()


class CrashesOnNumber(GuessEnv):
    @tool
    def guess(self, number: int) -> str:
        """Guesses."""
        return number.to_bytes(8, "big", signed=True).hex()


class Swallows(EchoEnv):
    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        try:
            return super().step(action)
        except Exception as error:
            self._running = True
            return str(error), 0.0, False, False, {"results": [], "messages": []}


class DropsCalls(EchoEnv):
    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated, truncated, {**info, "results": info["results"][:1]}


class TooLong(EchoEnv):
    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        _, *rest = super().step(action)
        return "x" * 10**6, *rest  # type: ignore[return-value]


class HalfCharacter(EchoEnv):
    def reset(self, **kwargs: Any) -> tuple[str, dict[str, Any]]:
        _, info = super().reset(**kwargs)
        return "\ud800", {**info, "messages": [{"role": "user", "content": "\ud800"}]}


class NoMessages(EchoEnv):
    def reset(self, **kwargs: Any) -> tuple[str, dict[str, Any]]:
        return super().reset(**kwargs)[0], {}


class OtherTools(EchoEnv):
    def reset(self, **kwargs: Any) -> tuple[str, dict[str, Any]]:
        observation, info = super().reset(**kwargs)
        return observation, info | {"tools": []}


class OddOutcome(EchoEnv):
    @tool
    def stop(self) -> str:
        """Ends."""
        self.finish()
        return ""

    def outcome(self) -> Outcome:
        class Odd:
            value = "won"

        return Odd()  # type: ignore[return-value]


class NoTask(EchoEnv):
    def start(self, options: dict[str, Any]) -> str:
        super().start(options)
        return None  # type: ignore[return-value]


class ArrayInfo(EchoEnv):
    """Facts that have no truth value when compared."""

    def reward(self) -> float:
        self.step_info["seen"] = np.array([1, 2])
        return super().reward()


class RandomFacts(ArrayInfo):
    def reward(self) -> float:
        self.step_info["seen"] = np.array([1, next(UnseededTask.counter)])
        return 0.0


class NotANumber(EchoEnv):
    def reward(self) -> float:
        return float("nan")


class Unpicklable(EchoEnv):
    def reward(self) -> float:
        self.step_info["lock"] = threading.Lock()
        return 0.0


class GoesOn(EchoEnv):
    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if self._end:
            return "", 0.0, True, False, {}
        return super().step(action)


class NoResetAfterCrash(EchoEnv):
    busy = False

    def start(self, options: dict[str, Any]) -> str:
        if self.busy:
            raise RuntimeError("still busy")
        return super().start(options)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.busy = True
        result = super().step(action)
        self.busy = False
        return result


class RemembersCrash(EchoEnv):
    crashed = ""

    def start(self, options: dict[str, Any]) -> str:
        return super().start(options) + self.crashed

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        try:
            return super().step(action)
        except ResetNeeded:
            raise
        except Exception:
            self.crashed = " again"
            raise


class PaysTwice(EchoEnv):
    def truncate(self, reason: str) -> tuple[float, dict[str, Any]]:
        return 0.5, super().truncate(reason)[1]


class TruncatesOddly(EchoEnv):
    def truncate(self, reason: str) -> tuple[float, dict[str, Any]]:
        return super().truncate(reason)[0], {}


class ClosesOnce(EchoEnv):
    closed = False

    def close(self) -> None:
        if self.closed:
            raise RuntimeError("already closed")
        self.closed = True


class DefaultSeed(EchoEnv):
    def reset(
        self, *, seed: int | None = 3, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        return super().reset(seed=seed, options=options)


BREACHES: list[tuple[Callable[[], Any], str]] = [
    (lambda: gymnasium.make("CartPole-v1"), "CartPoleEnv is not a tool environment"),
    (UnseededTask, "two resets with one seed give two tasks.*self.np_random"),
    (UnseededAnswers, "the same seed and actions give another episode"),
    (RandomFacts, "the same seed and actions give another episode"),
    (StateLeaks, "the same seed and actions give another episode.*set all state in start"),
    (CrashesOnText, "step.. raises UnicodeEncodeError.*raise ToolCallError"),
    (CrashesOnNumber, "step.. raises OverflowError.*raise ToolCallError"),
    (Swallows, "swallowed|goes on|answered one by one"),
    (DropsCalls, "not answered one by one"),
    (TooLong, "the answer to .* is not within UnicodeText"),
    (HalfCharacter, "lone surrogate.*errors='replace'"),
    (NoMessages, r"info\['messages'\] of reset.. does not end with the observation"),
    (OtherTools, r"info\['tools'\] of reset.. is not the list of tools"),
    (OddOutcome, "ended with the outcome .*must be one of solved, failed"),
    (NoTask, r"start\(\) returned NoneType"),
    (NotANumber, "the reward is nan"),
    (Unpicklable, "info cannot be pickled.*plain data into self.step_info"),
    (GoesOn, "goes on after the end"),
    (NoResetAfterCrash, "reset.. raises RuntimeError: still busy"),
    (RemembersCrash, "first observation after a crash differs"),
    (PaysTwice, "pays twice"),
    (TruncatesOddly, "truncate.. gives 0.0 and {}"),
    (ClosesOnce, "close.. raises RuntimeError the second time: already closed"),
    (DefaultSeed, "gymnasium.utils.env_checker.check_env fails.*default seed"),
]


@pytest.mark.parametrize(("make", "says"), BREACHES, ids=[says[:30] for _, says in BREACHES])
def test_each_breach_is_named_with_its_remedy(make: Callable[[], Any], says: str) -> None:
    with pytest.raises(EnvContractError, match=says) as caught:
        check_env(make(), actions=[STOP, STOP])
    assert str(caught.value).endswith(".") or "CartPole" in says
    assert len(str(caught.value)) < 1500


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (EchoEnv, r"the class EchoEnv\. Give an id or an instance: check_env\(EchoEnv\(\)\)"),
        (None, "got None. Give an id or an instance"),
    ],
)
def test_a_class_is_no_environment_yet(given: Any, says: str) -> None:
    with pytest.raises(EnvContractError, match=says):
        check_env(given)


def test_facts_may_be_arrays() -> None:
    check_env(ArrayInfo(), actions=[STOP])


def test_bad_tools_and_broken_machinery_keep_their_own_errors() -> None:
    class BadTool(EchoEnv):
        @tool
        def look(self, at: memoryview) -> str:
            """Looks."""
            return ""

    class Dead(EchoEnv):
        @tool
        def echo(self, text: str) -> str:
            """Repeats."""
            raise SandboxDead("gone")

    with pytest.raises(ToolDefinitionError):
        check_env(BadTool())
    with pytest.raises(SandboxDead):
        check_env(Dead())


def test_an_environment_may_say_that_it_is_not_deterministic() -> None:
    agentic_gym.register("tests/unseeded-v0", UnseededAnswers, nondeterministic=True)
    check_env("tests/unseeded-v0")
    agentic_gym.register("tests/unseeded-task-v0", UnseededTask, nondeterministic=True)
    check_env("tests/unseeded-task-v0")


def test_the_environment_is_closed_whatever_was_found() -> None:
    env = ClosesOnce()
    env.step = None  # type: ignore[assignment, method-assign]
    with pytest.raises(EnvContractError):
        check_env(env)
    assert env.closed


def test_an_id_is_made_and_checked() -> None:
    agentic_gym.register("tests/checked-v0", GuessEnv, max_turns=2)
    check_env("tests/checked-v0")
