import asyncio
from typing import Any

import numpy as np
import pytest

from agentic_gym.agent import LMAgent, PolicyAgent
from agentic_gym.chat import ChatCodec
from agentic_gym.engines.scripted import ScriptedEngine
from agentic_gym.errors import ConfigError
from agentic_gym.tools import format_action
from agentic_gym.trainers.tokenizer import train_tokenizer
from agentic_gym.types import SamplingParams

TOKENIZER = train_tokenizer(["guess a number higher lower yes"] * 3, 300)
CODEC = ChatCodec(TOKENIZER, show_tools=False)
ACTION = format_action([("guess", {"number": 5})])


def ids(text: str) -> list[int]:
    return list(TOKENIZER.encode(text, add_special_tokens=False))


def make_agent(engine: ScriptedEngine, *, limit: int = 1000, max_tokens: int = 100) -> LMAgent:
    sampling = SamplingParams(max_tokens=max_tokens)
    return LMAgent(engine, CODEC, sampling, max_tokens_per_episode=limit)


def test_an_episode_becomes_one_stream() -> None:
    engine = ScriptedEngine([ids(ACTION + "<|im_end|>"), ids("yes")], version=2)
    agent = make_agent(engine)

    async def main() -> None:
        await agent.begin("t", 0, "guess", {})
        action = await agent.act()
        assert action is not None
        assert (action.text, action.finish_reason) == (ACTION, "stop")
        answer = {"role": "tool", "tool_call_id": "0", "name": "guess", "content": "higher"}
        agent.observe("higher", {"messages": [answer]})
        await agent.act()
        await agent.end()

    asyncio.run(main())
    stream = agent.stream()
    first, second = engine.prompts
    assert second[: len(first)] == first
    assert tuple(stream.ids[: len(second)]) == second
    assert TOKENIZER.decode(stream.ids[stream.sampled]) == ACTION + "<|im_end|>yes"
    assert set(stream.versions[stream.sampled]) == {2}
    assert set(stream.versions[~stream.sampled]) == {-1}
    assert (stream.logprobs[stream.sampled] < 0).all()
    assert (stream.logprobs[~stream.sampled] == 0).all()
    assert np.unique(stream.turns).tolist() == [-1, 0, 1]
    assert (np.diff(stream.turns) >= 0).all()
    assert engine.released == ["t"]


def test_the_token_budget_bounds_completions_and_the_stream() -> None:
    engine = ScriptedEngine([ids("higher " * 30)])
    agent = make_agent(engine, limit=40)

    async def main() -> None:
        await agent.begin("t", 0, "guess", {})
        action = await agent.act()
        assert action is not None
        assert action.finish_reason == "length"
        agent.observe("lower " * 30, {})
        assert await agent.act() is None
        await agent.end()

    asyncio.run(main())
    stream = agent.stream()
    assert len(stream) == 40
    assert {
        len(getattr(stream, name)) for name in ("sampled", "logprobs", "versions", "turns")
    } == {40}
    assert len(engine.prompts) == 1


def test_a_prompt_over_the_budget_is_never_sampled_from() -> None:
    engine = ScriptedEngine([[1]])
    agent = make_agent(engine, limit=5)

    async def main() -> None:
        await agent.begin("t", 0, "a long task " * 20, {})
        assert await agent.act() is None
        await agent.end()

    asyncio.run(main())
    assert engine.prompts == []
    assert not agent.stream().sampled.any()


def test_an_aborted_completion_is_carried_on_from_its_prefix() -> None:
    engine = ScriptedEngine(lambda prompt, _: ids("yes no yes no yes")[len(prompt) - start :])
    agent = make_agent(engine)
    start = 0

    async def main() -> None:
        nonlocal start
        await agent.begin("t", 0, "guess", {})
        start = len(CODEC.start([{"role": "user", "content": "guess"}]))
        acting = asyncio.create_task(agent.act())
        for _ in range(5):
            await asyncio.sleep(0)
        await engine.publish({}, 1, mode="abort")
        action = await acting
        assert action is not None
        assert action.text == "yes no yes no yes"

    asyncio.run(main())
    stream = agent.stream()
    assert set(stream.versions[stream.sampled]) == {0, 1}
    assert np.unique(stream.turns[stream.sampled]).tolist() == [0], "it is one turn"


def test_a_policy_is_a_function_or_an_object() -> None:
    class Policy:
        def reset(self, task: Any, seed: int) -> None:
            self.task, self.seed = task, seed

        async def act(self, observation: str, info: Any) -> str:
            return f"{self.task} {self.seed} {observation} {info['n']}"

    async def play(agent: PolicyAgent) -> list[str]:
        await agent.begin("t", 4, "first", {"n": 1})
        texts = [(await agent.act()).text]
        agent.observe("second", {"n": 2})
        texts.append((await agent.act()).text)
        await agent.end()
        return texts

    assert asyncio.run(play(PolicyAgent(Policy()))) == ["first 4 first 1", "first 4 second 2"]
    assert asyncio.run(play(PolicyAgent(Policy(), task="T")))[0] == "T 4 first 1"
    assert asyncio.run(play(PolicyAgent(lambda text, info: text * info["n"])))[1] == "secondsecond"
    with pytest.raises(ConfigError, match="a policy is a function"):
        PolicyAgent(3)


def test_the_budget_must_be_positive() -> None:
    with pytest.raises(ConfigError, match="max_tokens_per_episode=0"):
        make_agent(ScriptedEngine([[1]]), limit=0)
