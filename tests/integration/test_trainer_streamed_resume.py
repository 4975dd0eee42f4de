"""A run that works on parts of its batches, broken off and resumed: the same weights, bit for bit."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM, TrainerCallback

from agentic_gym.agent import AgentAction
from agentic_gym.rollout import Rollout
from agentic_gym.store import RunStore
from agentic_gym.trainers.config import AgenticPPOConfig
from agentic_gym.trainers.ppo_trainer import AgenticPPOTrainer
from agentic_gym.trainers.run_parts import Run
from agentic_gym.trainers.runtime import Runtime
from agentic_gym.trainers.schedules.registry import make_schedule
from agentic_gym.trainers.selection import UniformTasks
from agentic_gym.trainers.source import OnPiece, Update
from agentic_gym.types import Completion, Outcome, TokenStream, Trajectory, Turn

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]

VOCAB, UPDATES, BATCH = 32, 5, 6


class SlowFirst(gymnasium.Env[str, str]):
    """One turn; the first group of each batch waits until the trainer has worked on a part."""

    def __init__(self, gate: threading.Event) -> None:
        self._gate = gate

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        assert options is not None
        if options["task_id"] == "slow":
            assert self._gate.wait(20)
        return "start", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        reward = float(int(action) % 2)
        return "end", reward, True, False, {"outcome": Outcome.FAILED}


class InTurn(UniformTasks):
    """The first of every three groups has the slow task."""

    drawn = 0

    def next_task(self) -> str:
        self.drawn += 1
        return "slow" if self.drawn % 3 == 1 else "quick"

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "drawn": self.drawn}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        super().load_state_dict(state)
        self.drawn = state["drawn"]


class SeededAgent:
    """Samples a few tokens, which its seed decides."""

    async def begin(
        self, trajectory_id: str, seed: int, observation: str, info: Mapping[str, Any]
    ) -> None:
        rng = np.random.default_rng(seed)
        self._ids = rng.integers(0, VOCAB, int(rng.integers(8, 16)))

    async def act(self) -> AgentAction:
        return AgentAction(str(int(self._ids.sum())))

    async def recall(self, turn: Turn, completion: Completion | None) -> None:
        pass

    def observe(self, observation: str, info: Mapping[str, Any]) -> None:
        pass

    def stream(self) -> TokenStream:
        sampled = np.arange(len(self._ids)) >= 5
        return TokenStream(
            ids=self._ids.astype(np.int32),
            sampled=sampled,
            logprobs=np.where(sampled, -np.log(VOCAB), 0).astype(np.float32),
            versions=np.where(sampled, 0, -1).astype(np.int32),
            turns=np.where(sampled, 0, -1).astype(np.int32),
        )

    async def end(self) -> None:
        pass


class Gated(Runtime):
    """Lets the slow ones go when a part has been worked on."""

    gate: threading.Event

    def next_batch(self, on_piece: OnPiece | None = None) -> Any:
        assert on_piece is not None

        def learn(piece: Sequence[Trajectory]) -> None:
            on_piece(piece)
            self.gate.set()

        return super().next_batch(learn)

    def update_finished(self, update: Update) -> None:
        self.gate.clear()
        super().update_finished(update)


class Broken(Exception):
    """The process ends here."""


class Watch(TrainerCallback):  # type: ignore[misc]  # untyped base
    """Keeps the weights after each update, and breaks off in one."""

    def __init__(self, break_in: int) -> None:
        self.weights: dict[int, dict[str, torch.Tensor]] = {}
        self._break_in = break_in

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        named = kwargs["model"].named_parameters()
        self.weights[state.global_step] = {name: p.detach().clone() for name, p in named}

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step + 1 == self._break_in:
            raise Broken


def process(folder: Path, *, break_in: int = 0) -> Watch:
    """Trains until it breaks or ends; resumes what is there."""
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=VOCAB, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=1, head_dim=8, tie_word_embeddings=True,
    )  # fmt: skip
    args = AgenticPPOConfig(
        output_dir=str(folder / "checkpoints"), max_steps=UPDATES, minibatch_size=BATCH,
        ppo_epochs=1, whiten_advantages=False, stream=True, save_steps=100, use_cpu=True,
        learning_rate=1e-2, value_warmup_updates=0,
    )  # fmt: skip
    watch, gate = Watch(break_in), threading.Event()
    with (
        RunStore(folder) as store,
        Rollout(lambda: SlowFirst(gate), lambda _: SeededAgent()) as rollout,
    ):
        run = Run(
            rollout,
            make_schedule("sync", batch_size=BATCH, group_size=2, stage=True),
            InTurn(["slow", "quick"]),
            store,
            slots=BATCH,
        )
        with Gated(run, updates=UPDATES) as source:
            source.gate = gate
            model = Qwen3ForCausalLM(config)
            trainer = AgenticPPOTrainer(model, args, source, callbacks=[watch])
            try:
                trainer.train(resume_from_checkpoint=True)
            except Broken:
                gate.set()
    return watch


def test_a_replayed_update_has_the_bits_of_the_first_time(tmp_path: Path) -> None:
    first = process(tmp_path, break_in=4)
    assert set(first.weights) == {1, 2, 3}
    with RunStore(tmp_path) as store:
        assert all(0 < share < 1 for _, share in store.metrics("streamed_share"))
        assert set(store.get_state("pieces")) == {"1", "2", "3", "4"}
    # No checkpoint: everything recorded is trained again, and the rest is played.
    second = process(tmp_path)
    assert set(second.weights) == {1, 2, 3, 4, 5}
    for version, weights in first.weights.items():
        for name, tensor in weights.items():
            assert torch.equal(tensor, second.weights[version][name]), (version, name)
    with RunStore(tmp_path) as store:
        assert store.check_conservation().trained == UPDATES * BATCH
