"""What an environment's author gets wrong is said where it is written, or at the first episode."""

from typing import Any

import numpy as np
import pytest

from agentic_gym.env import ToolEnv
from agentic_gym.errors import EnvContractError, ToolDefinitionError
from agentic_gym.testing import EchoEnv
from agentic_gym.tools import format_action, tool

ECHO = format_action([("echo", {"text": "hi"})])


def started(env: ToolEnv) -> ToolEnv:
    env.reset(seed=0)
    return env


def test_misuse_says_what_to_do() -> None:
    with pytest.raises(ToolDefinitionError, match=r"reset cannot be a tool: ToolEnv\.reset"):

        class Clash(EchoEnv):
            @tool
            def reset(self) -> str:  # type: ignore[override]
                """Does."""
                return ""

    class NoTool(ToolEnv):
        def start(self, options: dict[str, Any]) -> str:
            return ""

        def reward(self) -> float:
            return 0.0

    class Infinite(EchoEnv):
        def reward(self) -> float:
            return float("inf")

    class Early(EchoEnv):
        def start(self, options: dict[str, Any]) -> str:
            self.finish()
            return super().start(options)

    with pytest.raises(ToolDefinitionError, match="NoTool has no @tool method"):
        NoTool().reset()
    with pytest.raises(EnvContractError, match="the reward is inf"):
        started(Infinite()).step(ECHO)
    with pytest.raises(EnvContractError, match=r"start\(\) called finish\(\)"):
        Early().reset()
    for unpaid in (None, "much", "1", b"1", [1.0]):
        env = EchoEnv(step_reward=unpaid)  # type: ignore[arg-type]
        with pytest.raises(EnvContractError, match=r"the reward is .*must be a finite number"):
            started(env).step(ECHO)
    with pytest.raises(EnvContractError, match=r"start\(\) returned int"):
        EchoEnv(task=7).reset()  # type: ignore[arg-type]
    with pytest.raises(EnvContractError, match="An action is text, got list"):
        started(EchoEnv()).step([ECHO])  # type: ignore[arg-type]


@pytest.mark.parametrize("paid", [True, 1, 1.0, np.float32(1), np.int64(1), np.bool_(True)])
def test_every_number_is_a_reward(paid: Any) -> None:
    reward = started(EchoEnv(step_reward=paid)).step(ECHO)[1]
    assert reward == 1.0
    assert type(reward) is float


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (
            "start",
            r"Bad\.start\(self: Any\) -> str cannot be called: .*Write def start\(self, options\)\.",
        ),
        ("conclude_truncated", r"Write def conclude_truncated\(self, reason\)\."),
    ],
)
def test_a_method_that_cannot_be_called_is_refused_with_its_class(name: str, says: str) -> None:
    def without_arguments(self: Any) -> str:
        return ""

    with pytest.raises(EnvContractError, match=says):
        type("Bad", (EchoEnv,), {name: without_arguments})
    with pytest.raises(EnvContractError, match=r"Write def reward\(self\)\."):
        type("Bad", (EchoEnv,), {"reward": lambda self, action: 0.0})
    type("Good", (EchoEnv,), {"start": lambda self, *_, **__: "", "reward": lambda self, a=1: 0.0})
