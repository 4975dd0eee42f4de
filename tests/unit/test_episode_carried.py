"""Episodes that are taken up again, and episodes that are kept waiting."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from agentic_gym.agent import LMAgent, PolicyAgent
from agentic_gym.chat import ChatCodec
from agentic_gym.engines.scripted import ScriptedEngine
from agentic_gym.episode import EpisodeWatch, Launch
from agentic_gym.rollout import Rollout
from agentic_gym.testing import EchoEnv, GuessEnv
from agentic_gym.tools import format_action
from agentic_gym.trainers.tokenizer import train_tokenizer
from agentic_gym.types import Outcome, SamplingParams, Trajectory

TOKENIZER = train_tokenizer(["guess a number higher lower yes"], 300)
CODEC = ChatCodec(TOKENIZER, show_tools=False)
GUESSES = [50, 25, 12, 18, 21]
LAUNCH = Launch("t", "task", "g", 3, {"number": 21})


def says(number: int) -> list[int]:
    text = format_action([("guess", {"number": number})]) + "<|im_end|>"
    return list(TOKENIZER.encode(text, add_special_tokens=False))


class Watch(EpisodeWatch):
    """Keeps every prefix; takes up the one that it is given."""

    def __init__(self, before: Trajectory | None = None) -> None:
        self.before = before
        self.seen: list[Trajectory] = []
        self.phases: list[str] = []

    def prefix(self) -> Trajectory | None:
        return self.before

    def turn(self, so_far: Any) -> None:
        self.seen.append(so_far())

    def phase(self, name: str) -> None:
        self.phases.append(name)


def play(
    watch: EpisodeWatch, numbers: list[int], *, version: int = 1, launch: Launch = LAUNCH
) -> Any:
    engine = ScriptedEngine([says(number) for number in numbers], version=version)
    agent = LMAgent(engine, CODEC, SamplingParams(max_tokens=100), max_tokens_per_episode=2000)
    with Rollout(GuessEnv, lambda _: agent) as rollout:
        return rollout.call(rollout.play(launch, watch)), engine


@pytest.mark.parametrize("turns", range(1, len(GUESSES)))
def test_an_episode_goes_on_from_any_of_its_turns(turns: int) -> None:
    watch = Watch()
    whole, _ = play(watch, GUESSES)
    assert whole.outcome is Outcome.SOLVED
    assert [len(prefix.turns) for prefix in watch.seen] == [1, 2, 3, 4]
    carried, engine = play(Watch(watch.seen[turns - 1]), GUESSES[turns:], version=7)
    assert len(engine.prompts) == len(GUESSES) - turns  # nothing is sampled twice
    assert [(t.action, t.observation, t.reward) for t in carried.turns] == [
        (t.action, t.observation, t.reward) for t in whole.turns
    ]
    assert np.array_equal(carried.tokens.ids, whole.tokens.ids)
    assert np.array_equal(carried.tokens.sampled, whole.tokens.sampled)
    sampled = carried.tokens.versions[carried.tokens.sampled]
    assert set(sampled[:1]) == {1}
    assert set(sampled[-1:]) == {7}


def test_a_prefix_that_the_environment_does_not_repeat_is_an_infra_error() -> None:
    watch = Watch()
    play(watch, GUESSES)
    other = Launch("t", "task", "g", 3, {"number": 90})
    carried, engine = play(Watch(watch.seen[2]), GUESSES[3:], launch=other)
    assert carried.outcome is Outcome.INFRA_ERROR
    assert "went otherwise" in str(carried.error)
    assert not engine.prompts


def test_a_prefix_of_another_tokenizer_is_an_infra_error() -> None:
    watch = Watch()
    play(watch, GUESSES)
    prefix = watch.seen[1]
    assert prefix.tokens is not None
    prefix.tokens.ids[prefix.tokens.sampled] = 5
    carried, _ = play(Watch(prefix), GUESSES[2:])
    assert carried.outcome is Outcome.INFRA_ERROR
    assert "read otherwise" in str(carried.error)


def test_a_policy_without_tokens_acts_again_up_to_the_same_turn() -> None:
    asked: list[str] = []

    def agent(_: Launch) -> PolicyAgent:
        texts = iter([format_action([("echo", {"text": str(i)})]) for i in range(3)])

        def act(observation: str, _info: Any) -> str:
            asked.append(observation)
            return next(texts, format_action([("stop", {})]))

        return PolicyAgent(act)

    watch = Watch()
    with Rollout(EchoEnv, agent) as rollout:
        whole = rollout.call(rollout.play(LAUNCH, watch))
        asked.clear()
        carried = rollout.call(rollout.play(LAUNCH, Watch(watch.seen[1])))
    assert [t.action for t in carried.turns] == [t.action for t in whole.turns]
    assert len(asked) == 4
    assert watch.phases == ["reset", *["generate", "step"] * 4]


def test_time_in_which_an_episode_is_kept_waiting_is_not_its_own() -> None:
    now = waited = 0.0

    class Paused(EpisodeWatch):
        def paused_s(self) -> float:
            return waited

    def play(*, paused: bool) -> Trajectory:
        def act(_observation: str, _info: Any) -> str:
            nonlocal now, waited
            now += 5.0
            waited += 4.5 * paused
            return format_action(
                [("echo" if now < 9 else "stop", {"text": "x"} if now < 9 else {})]
            )

        with Rollout(
            EchoEnv, lambda _: PolicyAgent(act), episode_limit_s=3.0, clock=lambda: now
        ) as rollout:
            return rollout.call(rollout.play(LAUNCH, Paused()))

    patient = play(paused=True)
    assert patient.outcome is Outcome.SOLVED
    assert patient.metrics["duration_s"] == 1.0
    assert patient.metrics["paused_s"] == 9.0
    now = waited = 0.0
    other = play(paused=False)
    assert other.truncated
    assert other.metrics["duration_s"] == 5.0


def test_an_agent_that_is_kept_waiting_is_given_more_time() -> None:
    paused = 0.0

    class Paused(EpisodeWatch):
        def paused_s(self) -> float:
            return paused

    async def act(_observation: str, _info: Any) -> str:
        nonlocal paused
        for _ in range(4):
            paused += 10.0  # before the limit is looked at again
            await asyncio.sleep(0.02)
        return format_action([("stop", {})])

    with Rollout(EchoEnv, lambda _: PolicyAgent(act), episode_limit_s=0.05) as rollout:
        assert rollout.call(rollout.play(LAUNCH, Paused())).outcome is Outcome.FAILED
