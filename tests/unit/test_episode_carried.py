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
    waited = 0.0

    class Paused(EpisodeWatch):
        def paused_s(self) -> float:
            return waited

    async def act(_observation: str, _info: Any) -> str:
        nonlocal waited
        for _ in range(3):
            await asyncio.sleep(0.05)
            waited += 0.05
        return format_action([("stop", {})])

    with Rollout(EchoEnv, lambda _: PolicyAgent(act), episode_limit_s=0.1) as rollout:
        patient = rollout.call(rollout.play(LAUNCH, Paused()))
        other = rollout.call(rollout.play(LAUNCH))
    assert patient.outcome is Outcome.FAILED
    assert patient.metrics["duration_s"] < 0.1
    assert patient.metrics["paused_s"] == pytest.approx(0.15)
    assert other.truncated
