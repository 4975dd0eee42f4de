"""The whole loop with the embedded engine: episodes, updates, publishing, verification."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from agentic_gym.agent import AgentAction
from agentic_gym.engines.transformers import TransformersEngine
from agentic_gym.errors import EngineMismatch
from agentic_gym.rollout import Launch, Rollout
from agentic_gym.store import RunStore
from agentic_gym.trainers.config import AgenticPPOConfig
from agentic_gym.trainers.policy import TrainedPolicy
from agentic_gym.trainers.ppo_trainer import AgenticPPOTrainer
from agentic_gym.trainers.publisher import WeightPublisher
from agentic_gym.trainers.runtime import Runtime
from agentic_gym.trainers.schedules.sync import Sync
from agentic_gym.trainers.scoring import prepare_model
from agentic_gym.trainers.selection import UniformTasks
from agentic_gym.trainers.value_head import attach
from agentic_gym.types import Outcome, SamplingParams, TokenStream

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]


VOCAB, GOOD = 16, 3


class PickEnv(gymnasium.Env[str, str]):
    """Two turns; each pays half if the action is the good token."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        self._turn, self._sum = 0, 0.0
        return "start", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        reward = 0.5 * (int(action) == GOOD)
        self._turn += 1
        self._sum += reward
        done = self._turn == 2
        outcome = Outcome.SOLVED if self._sum == 1 else Outcome.FAILED
        return "next", reward, done, False, {"outcome": outcome} if done else {}


class TokenAgent:
    """One token a turn from the engine; observations are the fixed tokens 1, 2."""

    def __init__(self, engine: TransformersEngine) -> None:
        self._engine = engine
        self._ids: list[int] = [1, 2, 5]
        self._made: list[tuple[float, int]] = [(0.0, -1)] * 3
        self._turns = [-1] * 3

    async def begin(
        self, trajectory_id: str, seed: int, observation: str, info: Mapping[str, Any]
    ) -> None:
        self._id, self._seed, self._turn = trajectory_id, seed, 0

    async def act(self) -> AgentAction:
        completion = await self._engine.generate(
            self._ids,
            SamplingParams(1, seed=self._seed),
            request_id=f"{self._id}/{self._turn}",
            session_id=self._id,
        )
        self._ids += completion.token_ids
        self._made += zip(completion.logprobs, completion.weight_versions, strict=True)
        self._turns.append(self._turn)
        return AgentAction(str(completion.token_ids[0]))

    def observe(self, observation: str, info: Mapping[str, Any]) -> None:
        self._ids += [1, 2]
        self._made += [(0.0, -1)] * 2
        self._turns += [self._turn] * 2
        self._turn += 1

    def stream(self) -> TokenStream:
        versions = np.asarray([version for _, version in self._made], np.int32)
        return TokenStream(
            ids=np.asarray(self._ids, np.int32),
            sampled=versions >= 0,
            logprobs=np.asarray([logprob for logprob, _ in self._made], np.float32),
            versions=versions,
            turns=np.asarray(self._turns, np.int32),
        )

    async def end(self) -> None:
        await self._engine.release(self._id)


def make_model(seed: int = 0) -> Qwen3ForCausalLM:
    torch.manual_seed(seed)
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=VOCAB,
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=8,
            tie_word_embeddings=True,
            max_position_embeddings=64,
        )
    )


def make_policy(model: torch.nn.Module, temperature: float = 1.0) -> TrainedPolicy:
    names = list(model.state_dict())
    prepare_model(model, "packed")
    attach(model)
    return TrainedPolicy(model, names, layout="packed", temperature=temperature)


@pytest.fixture
def engine() -> Iterator[TransformersEngine]:
    served = TransformersEngine(make_model(), max_batch=16, max_context=64, threads=1)
    yield served
    asyncio.run(served.close())


def test_the_policy_learns_and_the_engine_follows(
    engine: TransformersEngine, tmp_path: Path
) -> None:
    args = AgenticPPOConfig(
        output_dir=str(tmp_path / "checkpoints"), max_steps=12, minibatch_size=32, use_cpu=True,
        learning_rate=2e-2, save_steps=100, target_kl=None,
    )  # fmt: skip
    with (
        RunStore(tmp_path) as store,
        Rollout(PickEnv, lambda _: TokenAgent(engine), concurrency=16) as rollout,
    ):
        runtime = Runtime(
            rollout=rollout,
            schedule=Sync(64, 4),
            tasks=UniformTasks(["only"]),
            store=store,
            publisher=WeightPublisher(engine),
        )
        AgenticPPOTrainer(make_model(), args, runtime).train()
        rewards = [value for _, value in store.metrics("reward")]
        gaps = [value for _, value in store.metrics("publish_gap")]
        staleness = [value for _, value in store.metrics("staleness_max")]
        counts = store.check_conservation()
    assert engine.version == 12
    assert counts.trained == counts.launches == 12 * 64
    assert set(staleness) == {0.0}
    assert max(gaps) < 1e-4
    assert len(gaps) == 12
    assert rewards[0] < 0.3
    assert np.mean(rewards[-2:]) > 0.6


def test_engine_and_trainer_agree_at_any_temperature(engine: TransformersEngine) -> None:
    policy = make_policy(make_model(7), temperature=0.7)
    publisher = WeightPublisher(engine, temperature=0.7)
    gap = asyncio.run(publisher.publish(policy, 3, [[1, 2, 3], [4]]))
    assert engine.version == 3
    assert 0 < gap < 1e-4


def test_another_temperature_is_noticed(engine: TransformersEngine) -> None:
    policy = make_policy(make_model(7), temperature=0.7)
    with pytest.raises(EngineMismatch, match="differ by"):
        asyncio.run(WeightPublisher(engine).publish(policy, 1, [[1, 2, 3]]))


def test_weights_that_did_not_arrive_are_noticed(engine: TransformersEngine) -> None:
    policy = make_policy(make_model(7))

    class Forgetful:
        """Says that it publishes the new weights, but hands over those of the engine."""

        def weights(self) -> Mapping[str, Any]:
            return dict(make_model().state_dict())

        def logprobs(self, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> list[float]:
            return policy.logprobs(prompt_ids, token_ids)

    with pytest.raises(EngineMismatch, match="differ by"):
        asyncio.run(WeightPublisher(engine).publish(Forgetful(), 1, [[1, 2, 3]]))


def test_a_group_of_one_launch_is_played_by_the_rollout(engine: TransformersEngine) -> None:
    """What the trainer scores is what the engine said when it sampled."""
    with Rollout(PickEnv, lambda _: TokenAgent(engine), concurrency=2) as rollout:
        [trajectory] = rollout.collect([Launch("t", "k", "g", 1)], progress=False)
    stream = trajectory.tokens
    assert stream is not None
    policy = make_policy(make_model())
    for position in np.flatnonzero(stream.sampled):
        ids = stream.ids.tolist()
        [logprob] = policy.logprobs(ids[:position], ids[position : position + 1])
        assert logprob == pytest.approx(float(stream.logprobs[position]), abs=1e-4)
