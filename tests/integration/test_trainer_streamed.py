"""Gradients begun before the batch is whole: the same update as of the batch in one piece."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig
from transformers import Qwen3Config, Qwen3ForCausalLM

from agentic_gym.errors import ConfigError, NonFiniteError, TrainingError
from agentic_gym.trainers.config import AgenticPPOConfig
from agentic_gym.trainers.ppo_trainer import AgenticPPOTrainer
from agentic_gym.trainers.source import Batch, OnPiece, RecordedSource
from agentic_gym.types import Outcome, TokenStream, Trajectory, Turn

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]

VOCAB = 48
SAME = ("policy_loss", "value_loss", "entropy", "approx_kl", "reference_kl", "ess", "value", "ratio",
        "grad_norm", "value_grad_norm", "explained_variance", "reward", "tokens", "staleness")  # fmt: skip


def make_model() -> Qwen3ForCausalLM:
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=VOCAB, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, head_dim=8, tie_word_embeddings=True,
    )  # fmt: skip
    return Qwen3ForCausalLM(config)


def trajectory(number: int, **changes: Any) -> Trajectory:
    """Of group ``number // 2``, one to four turns; some of its tokens are stale."""
    rng = np.random.default_rng(number)
    ids, sampled, turns = list(rng.integers(0, VOCAB, 5)), [False] * 5, [-1] * 5
    count = int(rng.integers(1, 5))
    for turn in range(count):
        made, read = int(rng.integers(1, 6)), int(rng.integers(1, 6))
        ids += list(rng.integers(0, VOCAB, made + read))
        sampled += [True] * made + [False] * read
        turns += [turn] * (made + read)
    mask = np.asarray(sampled)
    stream = TokenStream(
        ids=np.asarray(ids, np.int32),
        sampled=mask,
        logprobs=np.where(mask, -np.log(VOCAB), 0).astype(np.float32),
        versions=np.where(mask, 0, -1).astype(np.int32),
        turns=np.asarray(turns, np.int32),
    )
    rewards = [0.1] * (count - 1) + [float(rng.random() < 0.5)]
    fields: dict[str, Any] = {
        "trajectory_id": f"t{number}", "task_id": "k", "group_id": f"g{number // 2}",
        "seed": number, "prompt": "p", "turns": tuple(Turn("a", "o", r) for r in rewards),
        "tokens": stream, "outcome": Outcome.FAILED, "terminated": number % 3 > 0,
        "truncated": number % 3 == 0,
    }  # fmt: skip
    return Trajectory(**{**fields, **changes})


def batches(count: int = 2, size: int = 8) -> list[list[Trajectory]]:
    return [[trajectory(size * u + i) for i in range(size)] for u in range(count)]


class PieceSource(RecordedSource):
    """Hands over what a function cuts a batch into."""

    def __init__(
        self,
        data: list[list[Trajectory]],
        cut: Callable[[list[Trajectory]], Sequence[Sequence[Trajectory]]],
    ) -> None:
        super().__init__(data)
        self._cut = cut

    def next_batch(self, on_piece: OnPiece | None = None) -> Batch | None:
        batch = super().next_batch()
        if batch is not None and on_piece is not None:
            for piece in self._cut(list(batch.trajectories)):
                on_piece(piece)
        return batch


def make(
    folder: Path, source: RecordedSource, *, stream: bool = True, **settings: Any
) -> AgenticPPOTrainer:
    peft = settings.pop("peft_config", None)
    defaults: dict[str, Any] = {
        "max_steps": 2, "minibatch_size": 8, "ppo_epochs": 1, "whiten_advantages": False,
        "save_steps": 100, "use_cpu": True, "value_warmup_updates": 0, "optim": "sgd",
        "learning_rate": 0.5, "value_learning_rate": 0.1,
    }  # fmt: skip
    args = AgenticPPOConfig(output_dir=str(folder), stream=stream, **{**defaults, **settings})
    return AgenticPPOTrainer(make_model(), args, source, peft_config=peft)


def parameters(trainer: AgenticPPOTrainer) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in trainer.model.named_parameters()}


def groups(batch: list[Trajectory], order: Sequence[int]) -> list[list[Trajectory]]:
    return [batch[2 * g : 2 * g + 2] for g in order]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"layout": "sorted", "micro_batch_tokens": 60},
        {"micro_batch_tokens": 40, "gradient_checkpointing": True, "value_clip": None},
        {"peft_config": LoraConfig(r=2, target_modules="all-linear"), "kl_coef": 0.1},
        {"advantage": "token_gae", "entropy_coef": 0.05, "kl_coef": 0.1, "value_detach": False},
        {"advantage": "group", "value_detach": False},
        {"bootstrap_truncated": True, "staleness_decay": 1.0, "ramp_updates": 3},
        {"value_warmup_updates": 1, "max_grad_norm": 0.01},
    ],
    ids=["packed", "sorted", "checkpointing", "lora", "token", "group", "bootstrap", "warm-up"],
)  # fmt: skip
def test_an_update_in_pieces_is_the_update_of_the_whole(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    start = parameters(make(tmp_path / "start", RecordedSource([]), **settings))
    whole = RecordedSource(batches())
    plain = make(tmp_path / "whole", whole, stream=False, **settings)
    plain.train()
    # Two groups first, then one; the first group of the batch comes with the batch.
    pieces = PieceSource(batches(), lambda batch: [batch[4:8], batch[2:4]])
    streamed = make(tmp_path / "pieces", pieces, **settings)
    streamed.train()
    expected = parameters(plain)
    for name, tensor in parameters(streamed).items():
        torch.testing.assert_close(tensor, expected[name], atol=2e-6, rtol=1e-4, msg=name)
    assert any((expected[name] - start[name]).abs().max() > 1e-3 for name in start)
    numbered = iter(batches())
    for one, other in zip(whole.updates, pieces.updates, strict=True):
        assert 0.5 < other.metrics["streamed_share"] < 1
        assert other.metrics["optimizer_steps"] == 1
        for name in SAME:
            assert other.metrics[name] == pytest.approx(one.metrics[name], rel=1e-3, abs=1e-5), name
        assert list(other.credit) == list(one.credit) == [t.trajectory_id for t in next(numbered)]
        for name, credit in one.credit.items():
            np.testing.assert_array_equal(other.credit[name].rewards, credit.rewards)
            np.testing.assert_allclose(
                other.credit[name].advantages, credit.advantages, rtol=1e-3, atol=1e-4
            )


def test_the_same_pieces_give_the_same_bits_and_other_orders_nearly_so(tmp_path: Path) -> None:
    results = []
    for number, order in enumerate([(2, 0, 3), (2, 0, 3), (3, 2, 0)]):
        source = PieceSource(batches(), partial(groups, order=order))
        trainer = make(tmp_path / str(number), source)
        trainer.train()
        results.append(parameters(trainer))
    assert all(torch.equal(tensor, results[1][name]) for name, tensor in results[0].items())
    assert not all(torch.equal(tensor, results[2][name]) for name, tensor in results[0].items())
    for name, tensor in results[0].items():
        torch.testing.assert_close(results[2][name], tensor, atol=2e-6, rtol=1e-4)


def test_nothing_is_stepped_before_the_batch_is_there(tmp_path: Path) -> None:
    seen: list[bool] = []
    trainer = make(tmp_path, RecordedSource([]))
    before = parameters(trainer)

    def cut(batch: list[Trajectory]) -> list[list[Trajectory]]:
        return groups(batch, range(4))

    class Watching(PieceSource):
        def next_batch(self, on_piece: OnPiece | None = None) -> Batch | None:
            batch = super().next_batch(on_piece)
            now = parameters(trainer)
            seen.append(all(torch.equal(tensor, now[name]) for name, tensor in before.items()))
            return batch

    trainer.source = Watching(batches(1), cut)
    trainer.train()
    assert seen == [True, False]  # the second time there is no batch any more
    assert trainer.source.updates[0].metrics["streamed_share"] == 1
    assert all(parameter.grad is None for parameter in trainer.model.parameters())


def test_recorded_batches_come_group_by_group_to_who_asks(tmp_path: Path) -> None:
    batch = batches(1)[0]
    random.Random(0).shuffle(batch)
    pieces: list[Sequence[Trajectory]] = []
    source = RecordedSource([batch])
    assert source.next_batch(pieces.append) == Batch(1, batch)
    assert [{t.group_id for t in piece} for piece in pieces] == [
        {group} for group in list(dict.fromkeys(t.group_id for t in batch))[:-1]
    ]


def test_what_cannot_train_is_left_out_of_the_pieces_too(tmp_path: Path) -> None:
    good = batches(1)[0]
    broken = [trajectory(90 + i, outcome=Outcome.INFRA_ERROR) for i in range(2)]
    silent = trajectory(92, tokens=None)
    clean = make(tmp_path / "a", PieceSource([good], lambda batch: [batch[:2]]))
    mixed = make(
        tmp_path / "b",
        PieceSource([[*good, *broken, silent]], lambda batch: [[*batch[:2], silent], broken]),
    )
    clean.train()
    mixed.train()
    expected = parameters(clean)
    assert all(torch.equal(tensor, expected[name]) for name, tensor in parameters(mixed).items())


def test_a_piece_with_a_reward_that_is_no_number_stops_the_run_at_once(tmp_path: Path) -> None:
    data = batches(1)
    data[0][3] = trajectory(3, turns=(Turn("a", "o", float("nan")),))
    trainer = make(tmp_path, PieceSource(data, lambda batch: [batch[:2], batch[2:4]]))
    with pytest.raises(NonFiniteError, match="reward of trajectory t3 is nan"):
        trainer.train()
    saved = np.load(tmp_path / "nonfinite-update-1.npz")
    assert saved["trajectory_ids"].tolist() == ["t2", "t3"]
    # Another call starts from nothing.
    trainer.source = PieceSource(batches(1), lambda batch: [batch[:2]])
    trainer.train()
    fresh = make(tmp_path / "fresh", PieceSource(batches(1), lambda batch: [batch[:2]]))
    fresh.train()
    expected = parameters(fresh)
    assert all(torch.equal(tensor, expected[name]) for name, tensor in parameters(trainer).items())


def test_a_gradient_that_is_not_finite_is_found_and_the_whole_batch_saved(tmp_path: Path) -> None:
    trainer = make(tmp_path, PieceSource(batches(1), lambda batch: [batch[:2]]))
    parameter = next(trainer.model.parameters())
    parameter.register_hook(lambda gradient: gradient * float("nan"))
    with pytest.raises(NonFiniteError, match="gradient of the policy"):
        trainer.train()
    saved = np.load(tmp_path / "nonfinite-update-1.npz")
    assert saved["trajectory_ids"].tolist() == [f"t{i}" for i in range(8)]
    assert np.count_nonzero(saved["advantages"]) > len(saved["advantages"]) / 2


@pytest.mark.parametrize(
    ("cut", "words"),
    [
        (lambda batch: [[trajectory(77)]], "not in its batch, or gave them twice: t77"),
        (lambda batch: [batch[:2], batch[:2]], "not in its batch, or gave them twice: t0, t0, t1"),
    ],
)
def test_a_source_that_gives_wrong_pieces_is_refused(tmp_path: Path, cut: Any, words: str) -> None:
    with pytest.raises(TrainingError, match=words):
        make(tmp_path, PieceSource(batches(1), cut)).train()


def test_a_batch_of_several_minibatches_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has 8 trajectories: minibatch_size is 4"):
        make(tmp_path, RecordedSource(batches(1)), minibatch_size=4).train()
