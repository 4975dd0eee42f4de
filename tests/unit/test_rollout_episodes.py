import asyncio
import itertools
import sqlite3
import threading
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import pytest

from agentic_gym.agent import LMAgent, PolicyAgent
from agentic_gym.chat import ChatCodec
from agentic_gym.engines.scripted import ScriptedEngine
from agentic_gym.env import ToolEnv
from agentic_gym.env_thread import EnvThread, Gate
from agentic_gym.errors import ConfigError, InfraError, SandboxDead
from agentic_gym.rollout import Launch, Rollout
from agentic_gym.testing import EchoEnv, GuessEnv
from agentic_gym.tools import format_action, tool
from agentic_gym.trainers.tokenizer import train_tokenizer
from agentic_gym.types import Outcome, SamplingParams, Trajectory

TOKENIZER = train_tokenizer(["guess a number higher lower yes"], 300)
CODEC = ChatCodec(TOKENIZER, show_tools=False)
ECHO, STOP = format_action([("echo", {"text": "hi"})]), format_action([("stop", {})])


def launches(count: int, **options: Any) -> list[Launch]:
    return [Launch(f"t{i}", f"task{i}", f"g{i // 2}", i, options) for i in range(count)]


def scripted(*actions: str) -> Callable[[Launch], PolicyAgent]:
    def make(_: Launch) -> PolicyAgent:
        left = list(actions)
        return PolicyAgent(lambda _observation, _info: left.pop(0) if len(left) > 1 else left[0])

    return make


def play(
    env_factory: Callable[[], gymnasium.Env[Any, Any]],
    agent_factory: Callable[[Launch], Any],
    count: int = 1,
    **options: Any,
) -> list[Trajectory]:
    with Rollout(env_factory, agent_factory, **options) as rollout:
        return rollout.collect(launches(count), progress=False)


def binary_search(_: Launch) -> PolicyAgent:
    low, high, last = 1, 101, 0

    def act(observation: str, info: Any) -> str:
        nonlocal low, high, last
        if "higher" in observation:
            low = last + 1
        elif "lower" in observation:
            high = last
        last = (low + high) // 2
        return format_action([("guess", {"number": last})])

    return PolicyAgent(act)


def test_every_launch_becomes_its_trajectory_in_order() -> None:
    found = play(GuessEnv, binary_search, count=9, concurrency=4)
    for index, trajectory in enumerate(found):
        assert trajectory.trajectory_id == f"t{index}"
        assert (trajectory.task_id, trajectory.group_id) == (f"task{index}", f"g{index // 2}")
        assert trajectory.outcome is Outcome.SOLVED
        assert trajectory.terminated
        assert not trajectory.truncated
        assert trajectory.tokens is None
        assert 1 <= len(trajectory.turns) <= 7
        assert trajectory.prompt == "Find the number between 1 and 100."
        assert trajectory.turns[-1].info["tools"] == ["guess"]
        assert trajectory.metrics["duration_s"] >= trajectory.metrics["step_s"] > 0


def test_a_language_model_plays() -> None:
    reply = [*TOKENIZER.encode(ECHO, add_special_tokens=False), CODEC.stop_token_ids[0]]
    last = [*TOKENIZER.encode(STOP, add_special_tokens=False), CODEC.stop_token_ids[0]]
    engine = ScriptedEngine(lambda prompt, request: last if request.endswith("/1/0") else reply)

    def agent(_: Launch) -> LMAgent:
        return LMAgent(engine, CODEC, SamplingParams(max_tokens=99), max_tokens_per_episode=999)

    found = play(EchoEnv, agent, count=5, concurrency=5)
    assert {trajectory.outcome for trajectory in found} == {Outcome.SOLVED}
    stream = found[0].tokens
    assert stream is not None
    assert stream.ids[stream.sampled].tolist() == reply + last
    assert stream.ids[-1] == last[-1], "nothing is observed after the end"
    assert sorted(engine.released) == [f"t{i}" for i in range(5)]


def test_a_spent_token_budget_truncates_and_pays_the_last_reward() -> None:
    class Partial(EchoEnv):
        def conclude_truncated(self, reason: str) -> tuple[float, Outcome]:
            return (0.25, Outcome.TRUNCATED) if reason == "tokens" else (0.0, Outcome.FAILED)

    engine = ScriptedEngine([TOKENIZER.encode("hm ", add_special_tokens=False) * 20])

    def agent(_: Launch) -> LMAgent:
        return LMAgent(engine, CODEC, SamplingParams(max_tokens=20), max_tokens_per_episode=300)

    [trajectory] = play(Partial, agent)
    assert trajectory.outcome is Outcome.TRUNCATED
    assert trajectory.truncated
    assert trajectory.reward == 0.25
    assert trajectory.turns[-1].info["truncation_reason"] == "tokens"
    assert trajectory.tokens is not None
    assert len(trajectory.tokens) <= 300


def test_a_spent_wall_clock_truncates() -> None:
    async def dawdle(_observation: str, _info: Any) -> str:
        await asyncio.sleep(60)
        return STOP

    [trajectory] = play(EchoEnv, lambda _: PolicyAgent(dawdle), episode_limit_s=0.05)
    assert trajectory.outcome is Outcome.TRUNCATED
    assert trajectory.error is None
    assert trajectory.turns == ()


def test_a_spent_wall_clock_truncates_an_agent_that_never_waits() -> None:
    ticks = itertools.count()
    with Rollout(
        EchoEnv, scripted(ECHO), episode_limit_s=50.0, clock=lambda: float(next(ticks))
    ) as rollout:
        [trajectory] = rollout.collect(launches(1), progress=False)
    assert trajectory.outcome is Outcome.TRUNCATED
    assert trajectory.turns
    assert trajectory.turns[-1].info["truncation_reason"] == "time"


def test_a_dead_environment_is_an_infra_error_and_is_replaced() -> None:
    made: list[Any] = []

    class Breaking(EchoEnv):
        def __init__(self) -> None:
            super().__init__()
            self.broken = not made
            self.closed = False
            made.append(self)

        def start(self, options: dict[str, Any]) -> str:
            if self.broken:
                raise SandboxDead("killed by the kernel")
            return super().start(options)

        def close(self) -> None:
            self.closed = True

    found = play(Breaking, scripted(ECHO, STOP), count=4, concurrency=1)
    assert [trajectory.outcome for trajectory in found] == [
        Outcome.INFRA_ERROR,
        *[Outcome.SOLVED] * 3,
    ]
    assert found[0].error == "SandboxDead: killed by the kernel"
    assert len(made) == 2, "the good one is reused"
    assert all(env.closed for env in made)


def test_a_failing_engine_is_an_infra_error_and_the_environment_is_reused() -> None:
    engine = ScriptedEngine([[1]], fail=["t0/0/0"])
    made = []

    def env() -> EchoEnv:
        made.append(EchoEnv())
        return made[-1]

    def agent(_: Launch) -> LMAgent:
        return LMAgent(engine, CODEC, SamplingParams(max_tokens=1), max_tokens_per_episode=200)

    first, second = play(env, agent, count=2, concurrency=1)
    assert first.outcome is Outcome.INFRA_ERROR
    assert first.error is not None
    assert "scripted failure" in first.error
    assert second.outcome is Outcome.TRUNCATED
    assert len(made) == 1
    assert engine.released == ["t0", "t1"]


def test_a_bug_is_an_infra_error_that_says_where() -> None:
    class Buggy(EchoEnv):
        def reward(self) -> float:
            return 1 / 0

    [trajectory] = play(Buggy, scripted(ECHO))
    assert trajectory.outcome is Outcome.INFRA_ERROR
    assert trajectory.error is not None
    assert "ZeroDivisionError" in trajectory.error
    assert "in reward" in trajectory.error


def test_a_call_that_hangs_holds_nobody() -> None:
    release = threading.Event()
    returned: list[bool] = []

    class Hanging(EchoEnv):
        def start(self, options: dict[str, Any]) -> str:
            if options.get("hang"):
                returned.append(release.wait(60))
            return super().start(options)

    with Rollout(Hanging, scripted(ECHO, STOP), concurrency=2, call_limit_s=0.2) as rollout:
        found = rollout.collect(
            [Launch("h", "h", "h", 0, {"hang": True}), *launches(4)], progress=False
        )
        assert returned == []
        release.set()
    assert found[0].outcome is Outcome.INFRA_ERROR
    assert found[0].error is not None
    assert "0.2 s" in found[0].error
    assert {trajectory.outcome for trajectory in found[1:]} == {Outcome.SOLVED}


def test_a_call_that_was_given_up_keeps_its_place_until_it_comes_back() -> None:
    release = threading.Event()
    order: list[str] = []

    class Hanging(EchoEnv):
        def start(self, options: dict[str, Any]) -> str:
            if options.get("hang"):
                release.wait(60)
            order.append("hung" if options.get("hang") else "played")
            return super().start(options)

    async def main() -> None:
        gate = Gate(1)
        envs = [EnvThread(Hanging, limit_s=limit_s) for limit_s in (0.01, 0.01, 60.0, 60.0)]
        for env in envs:
            env.gate = gate
        stuck, quick, leaving, patient = envs
        with pytest.raises(InfraError, match=r"did not come back within 0\.01 s"):
            await stuck.reset(0, {"hang": True})
        with pytest.raises(InfraError, match="hold all 1 step_threads"):
            await quick.reset(0, {})
        left, waiting = (asyncio.create_task(env.reset(0, {})) for env in (leaving, patient))
        await asyncio.wait({waiting}, timeout=0.02)
        left.cancel()
        release.set()
        await waiting
        for env in envs:
            env.close()
            env.join(60)

    asyncio.run(main())
    assert order == ["hung", "played"]


def test_a_user_error_stops_the_rollout() -> None:
    def env() -> EchoEnv:
        raise ConfigError("split='tarin' is unknown")

    with pytest.raises(ConfigError, match="tarin"):
        play(env, scripted(ECHO), count=3)


def test_environments_stay_in_their_thread() -> None:
    class Database(ToolEnv):
        def start(self, options: dict[str, Any]) -> str:
            self.database = sqlite3.connect(":memory:")
            return "ask"

        @tool
        def ask(self) -> str:
            """Asks."""
            self.finish()
            return str(self.database.execute("select 40 + 2").fetchone()[0])

        def reward(self) -> float:
            return 1.0

        def close(self) -> None:
            self.database.close()

    found = play(Database, scripted(format_action([("ask", {})])), count=6, concurrency=3)
    assert [trajectory.turns[0].observation for trajectory in found] == ["42"] * 6


def test_concurrency_and_step_threads_are_bounds() -> None:
    lock = threading.Lock()
    now, most = {"episodes": 0, "steps": 0}, {"episodes": 0, "steps": 0}

    def enter(kind: str, change: int) -> None:
        with lock:
            now[kind] += change
            most[kind] = max(most[kind], now[kind])

    class Counting(EchoEnv):
        def start(self, options: dict[str, Any]) -> str:
            enter("episodes", 1)
            return super().start(options)

        def reward(self) -> float:
            enter("steps", 1)
            time.sleep(0.002)
            enter("steps", -1)
            if self._stopped:
                enter("episodes", -1)
            return super().reward()

    found = play(Counting, scripted(ECHO, STOP), count=12, concurrency=4, step_threads=2)
    assert len(found) == 12
    assert most == {"episodes": 4, "steps": 2}


def test_closing_the_iterator_cleans_up() -> None:
    engine = ScriptedEngine(lambda _prompt, _request: [1] * 10**6)

    def agent(_: Launch) -> LMAgent:
        return LMAgent(
            engine, CODEC, SamplingParams(max_tokens=10**6), max_tokens_per_episode=10**7
        )

    async def main(rollout: Rollout) -> None:
        trajectories = rollout.run(launches(4))
        waiting = asyncio.create_task(anext(trajectories))
        while len(engine.prompts) < 3:
            await asyncio.sleep(0.001)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await trajectories.aclose()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert sorted(engine.released) == ["t0", "t1", "t2"]

    with Rollout(EchoEnv, agent, concurrency=3) as rollout:
        rollout.call(main(rollout))


def test_what_an_environment_reports_is_in_the_record() -> None:
    class Reporting(EchoEnv):
        def reward(self) -> float:
            self.step_info["tests_passed"] = 3
            self.step_info["tags"] = {"error_class": "logic"}
            self.step_info["metrics"] = {"edits": 2}
            return super().reward()

    [trajectory] = play(Reporting, scripted(STOP))
    assert trajectory.outcome is Outcome.FAILED
    assert trajectory.tags == {"error_class": "logic"}
    assert trajectory.metrics["edits"] == 2.0
    assert trajectory.turns[0].info == {"tools": ["stop"], "tests_passed": 3, "outcome": "failed"}


def test_an_environment_that_is_not_ours_is_graded_by_its_return() -> None:
    class Plain(gymnasium.Env[Any, Any]):
        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            super().reset(seed=seed)
            return "hello", {}

        def step(self, action: Any) -> Any:
            return "ok", float(action == "good"), action != "slow", action == "slow", {}

    outcomes = {
        action: play(Plain, scripted(action))[0].outcome for action in ("good", "bad", "slow")
    }
    assert outcomes == {
        "good": Outcome.SOLVED,
        "bad": Outcome.FAILED,
        "slow": Outcome.TRUNCATED,
    }


def test_limits_are_checked() -> None:
    with pytest.raises(ConfigError, match="concurrency=0"):
        Rollout(EchoEnv, scripted(ECHO), concurrency=0)
