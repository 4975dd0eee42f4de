"""The long chain: one early decision, N turns of distraction, the reward at the end.

A tiny decoder learns :class:`~agentic_gym.testing.KeyEnv` with PPO. After each update its success is
computed, not sampled: the mean, over keys, of the probability of the right first action. So a curve has no
noise but that of training.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from agentic_gym.engines.replicas import ReplicaSet
from agentic_gym.engines.transformers import TransformersEngine
from agentic_gym.rewards.credit.plan import make_credit
from agentic_gym.rollout import Rollout
from agentic_gym.store import RunStore
from agentic_gym.testing import KeyEnv, TokenAgent
from agentic_gym.trainers.config import AgenticPPOConfig
from agentic_gym.trainers.ppo_trainer import AgenticPPOTrainer
from agentic_gym.trainers.publisher import WeightPublisher
from agentic_gym.trainers.run_parts import Run
from agentic_gym.trainers.runtime import Runtime
from agentic_gym.trainers.schedules.registry import make_schedule
from agentic_gym.trainers.selection import UniformTasks
from agentic_gym.trainers.source import Update

KEYS, VOCAB, BATCH, GROUP = 4, 16, 32, 8
SETTINGS: Mapping[str, Any] = {
    "save_strategy": "no",
    "use_cpu": True,
    "learning_rate": 3e-3,
    "value_learning_rate": 1e-2,
    "minibatch_size": BATCH,
    "ppo_epochs": 2,
    "target_kl": None,
    "value_detach": False,
}
"""Of the trainer."""

START = 15
"""Id that every prompt begins with."""


def make_model(seed: int, distractions: int) -> Qwen3ForCausalLM:
    """A decoder of two layers."""
    torch.manual_seed(seed)
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=VOCAB,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=8,
            tie_word_embeddings=True,
            max_position_embeddings=4 + 2 * (distractions + 1),
        )
    )


class Watched(Runtime):
    """Computes the policy's success after each update."""

    def __init__(self, run: Run, *, updates: int) -> None:
        super().__init__(run, updates=updates)
        self.curve: list[float] = []

    def update_finished(self, update: Update) -> None:
        """See :class:`~agentic_gym.trainers.runtime.Runtime`."""
        chances = [
            np.exp(update.policy.logprobs([START, key], [key])[0]) for key in range(1, KEYS + 1)
        ]
        self.curve.append(float(np.mean(chances)))
        super().update_finished(update)


def chain_curve(
    credit: str,
    options: Mapping[str, Mapping[str, Any]],
    settings: Mapping[str, Any],
    *,
    distractions: int,
    updates: int,
    seed: int,
) -> list[float]:
    """Success after each update.

    Args:
        credit: name of the credit plan.
        options: of its parts.
        settings: of the trainer, over the defaults here.
        distractions: turns between decision and reward.
        updates: of 32 episodes each.
        seed: of model, tasks and sampling.
    """
    model = make_model(seed, distractions)
    engine = TransformersEngine(
        model, max_batch=BATCH, max_context=4 + 2 * (distractions + 1), threads=1
    )
    replicas = ReplicaSet({0: engine})
    with (
        tempfile.TemporaryDirectory() as folder,
        RunStore(folder) as store,
        Rollout(
            lambda: KeyEnv(KEYS, distractions),
            lambda _: TokenAgent(replicas, prompt=(START,), observation=None),
            concurrency=BATCH,
        ) as rollout,
    ):
        run = Run(
            rollout=rollout,
            schedule=make_schedule("sync", batch_size=BATCH, group_size=GROUP),
            tasks=UniformTasks([f"key-{key}" for key in range(1, KEYS + 1)], seed=seed),
            store=store,
            replicas=replicas,
            publisher=WeightPublisher(sequences=0),
            slots=BATCH,
            seed=seed,
        )
        values = {
            **SETTINGS,
            "output_dir": str(Path(folder) / "checkpoints"),
            "max_steps": updates,
            "seed": seed,
            **settings,
        }
        with Watched(run, updates=updates) as source:
            plan = make_credit(credit, options=options)
            AgenticPPOTrainer(model, AgenticPPOConfig(**values), source, credit=plan).train()
    return source.curve
