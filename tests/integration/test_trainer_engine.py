"""The whole loop with the embedded engine: episodes, updates, publishing, verification."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM, TrainerCallback

from agentic_gym.engines.replicas import ReplicaSet
from agentic_gym.engines.transformers import TransformersEngine
from agentic_gym.errors import EngineMismatch
from agentic_gym.rollout import Launch, Rollout
from agentic_gym.store import LedgerCounts, RunStore
from agentic_gym.testing import TokenAgent
from agentic_gym.trainers.config import AgenticPPOConfig
from agentic_gym.trainers.policy import TrainedPolicy
from agentic_gym.trainers.ppo_trainer import AgenticPPOTrainer
from agentic_gym.trainers.publisher import WeightPublisher
from agentic_gym.trainers.relays.network import RelayNetwork
from agentic_gym.trainers.run_parts import Run
from agentic_gym.trainers.runtime import Runtime
from agentic_gym.trainers.schedules.registry import make_schedule
from agentic_gym.trainers.scoring import prepare_model
from agentic_gym.trainers.selection import UniformTasks
from agentic_gym.trainers.value_head import attach
from agentic_gym.types import Outcome

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


@dataclass
class Trained:
    """What a run has left behind."""

    metrics: dict[str, list[float]]
    counts: LedgerCounts
    versions: dict[int, int]


def train(
    folder: Path,
    name: str,
    num_replicas: int,
    options: Mapping[str, Any],
    relays: RelayNetwork | None = None,
    callbacks: Sequence[TrainerCallback] = (),
) -> Trained:
    """Twelve updates of a tiny policy under a schedule."""
    args = AgenticPPOConfig(
        output_dir=str(folder / "checkpoints"), max_steps=12, minibatch_size=32, use_cpu=True,
        learning_rate=2e-2, save_steps=100, target_kl=None,
    )  # fmt: skip
    engines = {
        number: TransformersEngine(make_model(), max_batch=16, max_context=64, threads=1)
        for number in range(num_replicas)
    }
    replicas = ReplicaSet(engines)
    with (
        RunStore(folder) as store,
        Rollout(PickEnv, lambda _: TokenAgent(replicas)) as rollout,
    ):
        run = Run(
            rollout=rollout,
            schedule=make_schedule(
                name, batch_size=64, group_size=4, concurrency=16, replicas=num_replicas, **options
            ),
            tasks=UniformTasks(["only"]),
            store=store,
            replicas=replicas,
            publisher=WeightPublisher(),
            slots=16,
            relays=relays,
        )
        with Runtime(run, updates=12) as runtime:
            AgenticPPOTrainer(make_model(), args, runtime, callbacks=[*callbacks]).train()
        names = ["reward", "publish_gap", "staleness_max"]
        names += ["relay_push_s", "relay_spread_s", "relay_rebuilds"]
        metrics = {name: [value for _, value in store.metrics(name)] for name in names}
        counts = store.check_conservation()
    asyncio.run(replicas.close())
    return Trained(metrics, counts, dict(replicas.versions))


def check_learning(trained: Trained, stale: int) -> None:
    metrics = trained.metrics
    assert set(trained.versions.values()) == {12}
    assert trained.counts.trained == 12 * 64
    assert max(metrics["staleness_max"]) <= stale
    assert max(metrics["publish_gap"]) < 1e-4
    assert metrics["reward"][0] < 0.3
    assert np.mean(metrics["reward"][-2:]) > 0.6


@pytest.mark.parametrize(
    ("name", "num_replicas", "stale", "options"),
    [
        ("sync", 1, 0, {}),
        ("tail_batching", 1, 8, {}),
        ("bounded_async", 1, 1, {"max_staleness": 1}),
        ("streaming", 2, 1, {"window": 1}),
        ("relay", 2, 1, {"max_staleness": 1}),
    ],
)
def test_the_policy_learns_and_the_engine_follows(
    name: str, num_replicas: int, stale: int, options: dict[str, Any], tmp_path: Path
) -> None:
    trained = train(tmp_path, name, num_replicas, options)
    check_learning(trained, stale)
    assert name != "sync" or trained.counts.launches == trained.counts.trained
    assert not trained.metrics["relay_push_s"]


class KillMaster(TrainerCallback):  # type: ignore[misc]  # untyped base
    """Kills the relay that the trainer sends to, in the middle of the run."""

    def __init__(self, relays: RelayNetwork) -> None:
        self.relays = relays
        self.pids: list[int] = []

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == 5:
            self.pids = list(self.relays.pids.values())
            os.kill(self.relays.pids[self.relays.order[0]], signal.SIGKILL)


def test_relays_carry_the_weights_also_when_one_is_killed(tmp_path: Path) -> None:
    relays = RelayNetwork(tmp_path / "relays", 2)
    killer = KillMaster(relays)
    trained = train(tmp_path, "relay", 2, {"max_staleness": 1}, relays, [killer])
    check_learning(trained, stale=1)
    metrics = trained.metrics
    assert len(killer.pids) == 2
    assert sum(metrics["relay_rebuilds"]) >= 1
    assert len(metrics["relay_push_s"]) == len(metrics["reward"])
    assert max(metrics["relay_spread_s"]) > min(metrics["relay_push_s"])
    assert not relays.pids
    assert not (tmp_path / "relays").exists()
    for pid in killer.pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


SAMPLES = [([1, 2, 3], [4, 5, 6, 7]), ([4], [2, 2])]


def test_engine_and_trainer_agree_at_any_temperature(engine: TransformersEngine) -> None:
    policy = make_policy(make_model(7), temperature=0.7)
    publisher = WeightPublisher(temperature=0.7)
    references = publisher.references(policy, 3, SAMPLES)
    gap = asyncio.run(publisher.publish(engine, policy.weights(), 3, references))
    assert engine.version == 3
    assert 0 < gap < 1e-4


def test_another_temperature_is_noticed(engine: TransformersEngine) -> None:
    policy = make_policy(make_model(7), temperature=0.7)
    publisher = WeightPublisher()
    references = publisher.references(policy, 1, SAMPLES)
    with pytest.raises(EngineMismatch, match="differ by"):
        asyncio.run(publisher.publish(engine, policy.weights(), 1, references))


def test_weights_that_did_not_arrive_are_noticed(engine: TransformersEngine) -> None:
    policy = make_policy(make_model(7))
    publisher = WeightPublisher()
    references = publisher.references(policy, 1, SAMPLES)
    with pytest.raises(EngineMismatch, match="differ by"):
        # Handed over as new, and really those that the engine has.
        asyncio.run(publisher.publish(engine, make_model().state_dict(), 1, references))


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
