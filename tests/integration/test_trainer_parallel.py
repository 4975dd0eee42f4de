"""Two data-parallel processes make the same update as one."""

from __future__ import annotations

import os
import socket
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import Qwen3Config, Qwen3ForCausalLM

from agentic_gym.trainers.config import AgenticPPOConfig
from agentic_gym.trainers.ppo_trainer import AgenticPPOTrainer
from agentic_gym.trainers.source import RecordedSource
from agentic_gym.types import Outcome, TokenStream, Trajectory, Turn

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork.*:DeprecationWarning"),
]

VOCAB = 24


def trajectory(number: int) -> Trajectory:
    rng = np.random.default_rng(number)
    size = int(rng.integers(6, 30))
    sampled = rng.random(size) < 0.5
    sampled[:3], sampled[-1] = False, True
    stream = TokenStream(
        ids=rng.integers(0, VOCAB, size).astype(np.int32),
        sampled=sampled,
        logprobs=np.where(sampled, -np.log(VOCAB), 0).astype(np.float32),
        versions=np.where(sampled, 0, -1).astype(np.int32),
        turns=np.where(sampled, 0, -1).astype(np.int32),
    )
    turns = (Turn("a", "o", float(number % 2)),)
    return Trajectory(
        f"t{number}",
        "k",
        f"g{number // 3}",
        number,
        "p",
        turns,
        stream,
        Outcome.FAILED,
        True,
        False,
    )


def train(folder: Path, **settings: Any) -> dict[str, float]:
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=VOCAB, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
            num_attention_heads=2, num_key_value_heads=1, head_dim=8, tie_word_embeddings=True,
        )
    )  # fmt: skip
    # 7 trajectories in minibatches of 3: parts of unequal size, and one that a device has no share of.
    data = [[trajectory(7 * u + i) for i in range(7)] for u in range(2)]
    args = AgenticPPOConfig(
        output_dir=str(folder), max_steps=2, save_steps=100, use_cpu=True,
        value_warmup_updates=1, micro_batch_tokens=25, optim="sgd", learning_rate=0.1,
        value_learning_rate=0.1, entropy_coef=0.01, kl_coef=0.01, **settings,
    )  # fmt: skip
    source = RecordedSource([data[0], data[1][:4]])
    AgenticPPOTrainer(model, args, source).train()
    return dict(source.updates[-1].metrics) if source.updates else {}


def run_in_children(folder: Path, world: int, **settings: Any) -> None:
    """Trains in ``world`` forked processes; ranks other than 0 own no source."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    children = []
    for rank in range(world):
        child = os.fork()
        if child == 0:
            try:
                torch.set_num_threads(1)  # OpenMP's threads do not survive a fork
                os.environ["OMP_NUM_THREADS"] = "1"  # accelerate warns if nobody says how many
                place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world}
                if world > 1:
                    os.environ.update({name: str(value) for name, value in place.items()})
                    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
                metrics = train(folder, **settings)
                if rank == 0:
                    np.savez(folder / "metrics.npz", **metrics)  # type: ignore[arg-type]
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
                os._exit(1)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * world


@pytest.mark.parametrize("stream", [False, True])
def test_two_processes_equal_one(tmp_path: Path, stream: bool) -> None:
    reset_accelerate()
    results: list[tuple[dict[str, Any], dict[str, torch.Tensor]]] = []
    steps = {"minibatch_size": 3}
    if stream:
        steps = {"minibatch_size": 7, "ppo_epochs": 1, "whiten_advantages": False}
    for world in (1, 2):
        folder = tmp_path / str(world)
        folder.mkdir()
        # In pieces against the whole, where there are pieces.
        run_in_children(folder, world, **steps, stream=stream and world == 2)
        weights = load_file(folder / "checkpoint-2/model.safetensors")
        weights |= load_file(folder / "checkpoint-2/value_head.safetensors")
        results.append((dict(np.load(folder / "metrics.npz")), weights))
    (one, weights_one), (two, weights_two) = results
    for name, tensor in weights_one.items():
        torch.testing.assert_close(weights_two[name], tensor, atol=1e-6, rtol=1e-5)
    assert stream == ("streamed_share" in two)
    for name in ("policy_loss", "value_loss", "approx_kl", "entropy", "ess", "clip_fraction"):
        assert two[name] == pytest.approx(one[name], rel=1e-4, abs=1e-7), name


def reset_accelerate() -> None:
    """Forgets the single-process state that other tests left, which forked children would inherit."""
    from accelerate.state import AcceleratorState, GradientState, PartialState

    for state in (AcceleratorState, GradientState, PartialState):
        state._reset_state()
