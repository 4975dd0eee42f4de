"""What ends one episode, what ends a rollout, and what neither may leave behind."""

import asyncio
import contextlib
import gc
import time
from collections.abc import Callable
from typing import Any

import pytest

from agentic_gym.agent import PolicyAgent
from agentic_gym.errors import ConfigError
from agentic_gym.rollout import Launch, Rollout
from agentic_gym.testing import EchoEnv
from agentic_gym.tools import format_action
from agentic_gym.types import Outcome

ECHO, STOP = format_action([("echo", {"text": "hi"})]), format_action([("stop", {})])


def launches(count: int) -> list[Launch]:
    return [Launch(f"t{i}", f"task{i}", f"g{i}", i) for i in range(count)]


def scripted(*actions: str) -> Callable[[Launch], PolicyAgent]:
    def make(_: Launch) -> PolicyAgent:
        left = list(actions)
        return PolicyAgent(lambda _observation, _info: left.pop(0) if len(left) > 1 else left[0])

    return make


@pytest.mark.parametrize(
    "raised",
    [
        StopIteration(),
        SystemExit(3),
        KeyboardInterrupt(),
        GeneratorExit(),
        asyncio.CancelledError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_an_environment_raises_ends_its_episode_alone(raised: BaseException) -> None:
    class Raising(EchoEnv):
        def start(self, options: dict[str, Any]) -> str:
            if options.get("raise"):
                raise raised
            return super().start(options)

    with Rollout(Raising, scripted(ECHO, STOP), concurrency=2, call_limit_s=20.0) as rollout:
        found = rollout.collect(
            [Launch("r", "r", "r", 0, {"raise": True}), *launches(2)], progress=False
        )
    assert [trajectory.outcome for trajectory in found] == [
        Outcome.INFRA_ERROR,
        *[Outcome.SOLVED] * 2,
    ]
    assert found[0].error is not None
    assert type(raised).__name__ in found[0].error


def test_several_user_errors_at_once_leave_no_complaint_behind(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def agent_error(_observation: str, _info: Any) -> str:
        await gate.wait()
        raise ConfigError("no such model")

    async def main(rollout: Rollout) -> None:
        async with contextlib.aclosing(rollout.run(launches(3))) as trajectories:
            waiting = asyncio.ensure_future(anext(trajectories))
            await asyncio.sleep(0.02)
            gate.set()  # all three end in the same round of the loop
            await waiting

    gate = asyncio.Event()
    with Rollout(EchoEnv, lambda _: PolicyAgent(agent_error), concurrency=3) as rollout:
        with pytest.raises(ConfigError, match="no such model"):
            rollout.call(main(rollout))
        gc.collect()
    assert caplog.messages == []


def test_environments_are_reused_on_another_loop() -> None:
    class Slow(EchoEnv):
        def start(self, options: dict[str, Any]) -> str:
            time.sleep(0.002)  # so that others wait for the only thread
            return super().start(options)

    async def main(rollout: Rollout) -> list[Outcome]:
        return [trajectory.outcome async for trajectory in rollout.run(launches(4))]

    with Rollout(Slow, scripted(ECHO, STOP), concurrency=4, step_threads=1) as rollout:
        for _ in range(2):
            assert asyncio.run(main(rollout)) == [Outcome.SOLVED] * 4


def test_a_running_loop_is_named_with_its_remedy() -> None:
    def play() -> list[Outcome]:
        with Rollout(EchoEnv, scripted(ECHO, STOP)) as rollout:
            return [t.outcome for t in rollout.collect(launches(2), progress=False)]

    async def notebook() -> list[Outcome]:
        with pytest.raises(ConfigError, match=r"asyncio\.to_thread"):
            play()
        return await asyncio.to_thread(play)

    assert asyncio.run(notebook()) == [Outcome.SOLVED] * 2
