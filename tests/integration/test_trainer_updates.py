"""The trainer on recorded trajectories: what an update changes, what a checkpoint holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig
from transformers import AutoModelForCausalLM, Qwen3Config, Qwen3ForCausalLM, TrainerCallback

from agentic_gym.errors import CheckpointError, ConfigError, NonFiniteError, TrainingError
from agentic_gym.trainers.checkpoints import list_checkpoints
from agentic_gym.trainers.config import AgenticPPOConfig
from agentic_gym.trainers.ppo_trainer import AgenticPPOTrainer
from agentic_gym.trainers.source import Batch, OnPiece, RecordedSource
from agentic_gym.types import Outcome, TokenStream, Trajectory, Turn

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]


VOCAB = 48


def make_model() -> Qwen3ForCausalLM:
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=VOCAB, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, head_dim=8, tie_word_embeddings=True,
        attention_dropout=0.3,
    )  # fmt: skip
    return Qwen3ForCausalLM(config)


def trajectory(number: int, *, reward: float | None = None, **changes: Any) -> Trajectory:
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
    paid = [0.0] * (count - 1) + [float(rng.random() < 0.5) if reward is None else reward]
    fields: dict[str, Any] = {
        "trajectory_id": f"t{number}", "task_id": "k", "group_id": f"g{number // 4}",
        "seed": number, "prompt": "p", "turns": tuple(Turn("a", "o", r) for r in paid),
        "tokens": stream, "outcome": Outcome.FAILED, "terminated": True, "truncated": False,
    }  # fmt: skip
    return Trajectory(**{**fields, **changes})


def batches(count: int, size: int = 8) -> list[list[Trajectory]]:
    return [[trajectory(size * u + i) for i in range(size)] for u in range(count)]


def make(folder: Path, data: list[list[Trajectory]], **settings: Any) -> AgenticPPOTrainer:
    peft = settings.pop("peft_config", None)
    callbacks = settings.pop("callbacks", None)
    defaults: dict[str, Any] = {
        "max_steps": len(data), "minibatch_size": 4, "save_steps": 100, "use_cpu": True,
        "value_warmup_updates": 0, "learning_rate": 1e-3,
    }  # fmt: skip
    args = AgenticPPOConfig(output_dir=str(folder), **{**defaults, **settings})
    return AgenticPPOTrainer(
        make_model(), args, RecordedSource(data), peft_config=peft, callbacks=callbacks
    )


def snapshot(trainer: AgenticPPOTrainer) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in trainer.policy.weights().items()}


def last_metrics(trainer: AgenticPPOTrainer) -> dict[str, float]:
    assert isinstance(trainer.source, RecordedSource)
    return dict(trainer.source.updates[-1].metrics)


LORA = {"full": None, "lora": LoraConfig(r=2, target_modules="all-linear")}


@pytest.mark.parametrize("kind", ["full", "lora"])
def test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit(tmp_path: Path, kind: str) -> None:
    data = batches(5)
    settings: dict[str, Any] = {
        "peft_config": LORA[kind], "kl_coef": 0.05, "entropy_coef": 0.01, "save_steps": 2,
        "lr_scheduler_type": "linear",
    }  # fmt: skip
    whole = make(tmp_path / "a", data, **settings)
    whole.train()

    class StopAtThree(TrainerCallback):  # type: ignore[misc]  # untyped base
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            control.should_training_stop = state.global_step == 3

    first = make(tmp_path / "b", data, callbacks=[StopAtThree()], **settings)
    first.train()
    second = make(tmp_path / "b", data, **settings)
    second.train(resume_from_checkpoint=True)
    assert isinstance(second.source, RecordedSource)
    assert [update.version for update in second.source.updates] == [4, 5]
    for name, tensor in whole.policy.weights().items():
        assert torch.equal(tensor, second.policy.weights()[name]), name
    moved = snapshot(make(tmp_path / "c", data))
    assert not all(torch.equal(t, moved[n]) for n, t in whole.policy.weights().items())


@pytest.mark.parametrize("kind", ["full", "lora"])
def test_checkpoints_load_in_transformers_as_they_are(tmp_path: Path, kind: str) -> None:
    trainer = make(tmp_path, batches(2), peft_config=LORA[kind], learning_rate=1e-2)
    trainer.train()
    model, report = AutoModelForCausalLM.from_pretrained(
        tmp_path / "checkpoint-2", output_loading_info=True
    )
    assert not any(report.values())
    assert not any("v_head" in name or "lora" in name for name in model.state_dict())
    assert model.config._attn_implementation == "sdpa"  # not the trainer's own
    ids = torch.arange(20)[None]
    with torch.no_grad():
        expected = trainer.model(input_ids=ids).logits
        torch.testing.assert_close(model(input_ids=ids).logits, expected, atol=1e-5, rtol=1e-5)
    assert (tmp_path / "checkpoint-2/value_head.safetensors").is_file()


def test_only_the_newest_checkpoints_are_kept(tmp_path: Path) -> None:
    make(tmp_path, batches(5), save_steps=1, save_total_limit=2).train()
    assert [path.name for path in list_checkpoints(tmp_path)] == ["checkpoint-4", "checkpoint-5"]
    assert not (tmp_path / ".staging").exists()


def test_resuming_a_complete_run_loads_it_and_trains_nothing(tmp_path: Path) -> None:
    data = batches(2)
    done = make(tmp_path, data)
    done.train()
    again = make(tmp_path, data)
    assert again.train(resume_from_checkpoint=True).global_step == 2
    assert again.version == 2
    for name, tensor in done.policy.weights().items():
        assert torch.equal(tensor, again.policy.weights()[name])
    longer = make(tmp_path, batches(4))
    longer.train(resume_from_checkpoint=True)
    assert longer.version == 4


def test_the_run_ends_with_its_source_and_is_saved(tmp_path: Path) -> None:
    trainer = make(tmp_path, batches(3), max_steps=50)
    trainer.train()
    assert trainer.version == 3
    assert [path.name for path in list_checkpoints(tmp_path)] == ["checkpoint-3"]
    state = json.loads((tmp_path / "checkpoint-3/trainer_state.json").read_text())
    assert {"policy_loss", "approx_kl", "explained_variance"} <= state["log_history"][0].keys()


def test_the_first_updates_train_the_value_head_alone(tmp_path: Path) -> None:
    trainer = make(tmp_path, batches(1), value_warmup_updates=1, value_clip=None)
    before = snapshot(trainer)
    head = {n: p.clone() for n, p in trainer.model.named_parameters() if "v_head" in n}
    trainer.train()
    assert all(torch.equal(t, before[n]) for n, t in trainer.policy.weights().items())
    assert all(
        not torch.equal(p, head[n]) for n, p in trainer.model.named_parameters() if n in head
    )


def test_the_policy_sets_off_slowly(tmp_path: Path) -> None:
    sizes = {}
    for ramp in (0, 2):
        for updates in (1, 2):
            trainer = make(
                tmp_path / f"{ramp}-{updates}", batches(updates), ramp_updates=ramp, optim="sgd"
            )
            head = {n: p.clone() for n, p in trainer.model.named_parameters() if "v_head" in n}
            before = snapshot(trainer)
            trainer.train()
            moved = trainer.policy.weights().items()
            sizes[ramp, updates] = sum(float((t - before[n]).abs().sum()) for n, t in moved)
            assert all(
                not torch.equal(p, head[n])
                for n, p in trainer.model.named_parameters()
                if n in head
            )
    assert sizes[2, 1] == 0 < sizes[0, 1]
    assert 0 < sizes[2, 2] < sizes[0, 2]


def test_equal_rewards_move_nothing_under_the_group_baseline(tmp_path: Path) -> None:
    data = [[trajectory(i, reward=1.0) for i in range(8)]]
    trainer = make(tmp_path, data, advantage="group")
    before = snapshot(trainer)
    trainer.train()
    assert all(torch.equal(t, before[n]) for n, t in trainer.policy.weights().items())


def test_verified_behaviour_logprobs_spare_the_scoring_pass(tmp_path: Path) -> None:
    """With the group baseline and fresh tokens, both ways make the same update."""
    scorer = make(tmp_path / "scorer", batches(1))
    data = [[with_true_logprobs(t, scorer) for t in batches(1)[0]]]
    results = []
    for reuse in (False, True):
        trainer = make(tmp_path / str(reuse), data, advantage="group", reuse_behaviour=reuse)
        trainer.train()
        results.append(snapshot(trainer))
    for name, tensor in results[0].items():
        torch.testing.assert_close(results[1][name], tensor, atol=1e-5, rtol=1e-4)


def with_true_logprobs(one: Trajectory, trainer: AgenticPPOTrainer) -> Trajectory:
    stream = one.tokens
    assert stream is not None
    ids = stream.ids.tolist()
    logprobs = np.zeros(len(ids), np.float32)
    for at in np.flatnonzero(stream.sampled):
        [logprobs[at]] = trainer.policy.logprobs(ids[:at], [ids[at]])
    tokens = TokenStream(stream.ids, stream.sampled, logprobs, stream.versions, stream.turns)
    return trajectory(one.seed, tokens=tokens)


def test_metrics_reach_the_usual_reports(tmp_path: Path) -> None:
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    folder = tmp_path / "board"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TENSORBOARD_LOGGING_DIR", str(folder))
        make(tmp_path, batches(2), report_to="tensorboard").train()
    events = reader.EventAccumulator(str(folder))
    events.Reload()
    assert [event.step for event in events.Scalars("train/approx_kl")] == [1, 2]


def test_layouts_and_micro_batches_give_the_same_update(tmp_path: Path) -> None:
    results = []
    for layout, budget, checkpointing in [
        ("packed", 4096, False), ("packed", 20, False), ("packed", 60, True), ("sorted", 50, False)
    ]:  # fmt: skip
        trainer = make(
            tmp_path / f"{layout}-{budget}", batches(1), layout=layout, micro_batch_tokens=budget,
            gradient_checkpointing=checkpointing, entropy_coef=0.01, optim="sgd",
            learning_rate=0.1,
        )  # fmt: skip
        trainer.train()
        results.append(snapshot(trainer))
    start = snapshot(make(tmp_path / "start", batches(1)))
    for other in results[1:]:
        for name, tensor in results[0].items():
            torch.testing.assert_close(other[name], tensor, atol=1e-6, rtol=1e-4)
    assert any((results[0][n] - start[n]).abs().max() > 1e-3 for n in start)


def test_the_ratio_of_the_first_step_is_one_despite_dropout(tmp_path: Path) -> None:
    trainer = make(tmp_path, batches(1), ppo_epochs=1, minibatch_size=8)
    trainer.train()
    metrics = last_metrics(trainer)
    assert metrics["ratio"] == pytest.approx(1.0, abs=1e-6)
    assert metrics["approx_kl"] == pytest.approx(0.0, abs=1e-9)


def test_an_update_ends_early_when_the_policy_has_moved_too_far(tmp_path: Path) -> None:
    long = make(tmp_path / "a", batches(1), ppo_epochs=4, learning_rate=0.05, target_kl=None)
    short = make(tmp_path / "b", batches(1), ppo_epochs=4, learning_rate=0.05, target_kl=1e-3)
    long.train()
    short.train()
    assert last_metrics(long)["optimizer_steps"] == 8
    assert last_metrics(long)["stopped_early"] == 0
    assert 1 <= last_metrics(short)["optimizer_steps"] < 8
    assert last_metrics(short)["stopped_early"] == 1


def test_infrastructure_errors_and_empty_episodes_do_not_train(tmp_path: Path) -> None:
    good = batches(1)[0]
    broken = trajectory(90, reward=100.0, outcome=Outcome.INFRA_ERROR)
    silent = trajectory(91, reward=100.0, tokens=None)
    clean, mixed = make(tmp_path / "a", [good]), make(tmp_path / "b", [[*good, broken, silent]])
    clean.train()
    mixed.train()
    assert last_metrics(mixed)["excluded"] == 2
    for name, tensor in clean.policy.weights().items():
        assert torch.equal(tensor, mixed.policy.weights()[name])
    with pytest.raises(TrainingError, match="none of the 2 trajectories"):
        make(tmp_path / "c", [[broken, silent]]).train()


def test_staleness_lowers_the_learning_rate_of_its_batch_alone(tmp_path: Path) -> None:
    trainer = make(tmp_path, batches(3), staleness_decay=1.0)
    rates: list[float] = []

    def watch(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        rates.append(optimizer.param_groups[0]["lr"])

    trainer.create_optimizer()
    assert trainer.optimizer is not None
    trainer.optimizer.register_step_pre_hook(watch)
    trainer.train()
    # Versions 0, 1, 2 train on tokens of version 0; the base's own empty step has the full rate.
    assert [round(rate, 6) for rate in rates[::5]] == [1e-3, 5e-4, 0.000333]
    assert rates[4::5] == [1e-3] * 3


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: {"turns": (Turn("a", "o", float("nan")),)}, "reward of trajectory t3 is nan"),
        (
            lambda t: {"tokens": replace_logprobs(t.tokens)},
            "tokens have a behaviour logprob .* first in trajectory t3",
        ),
    ],
)
def test_what_is_not_finite_stops_the_run_by_name(tmp_path: Path, change: Any, words: str) -> None:
    data = batches(1)
    bad = data[0][3]
    data[0][3] = trajectory(3, **change(bad))
    with pytest.raises(NonFiniteError, match=words):
        make(tmp_path, data).train()
    saved = np.load(tmp_path / "nonfinite-update-1.npz")
    assert saved["trajectory_ids"].tolist() == [f"t{i}" for i in range(8)]
    assert saved["counts"].sum() == len(saved["behaviour"])


def replace_logprobs(stream: TokenStream) -> TokenStream:
    logprobs = stream.logprobs.copy()
    logprobs[stream.sampled] = np.inf
    return TokenStream(stream.ids, stream.sampled, logprobs, stream.versions, stream.turns)


@pytest.mark.parametrize(
    ("where", "words"),
    [("weight", "tokens have a proximal logprob"), ("gradient", "gradient of the policy")],
)
def test_a_broken_model_stops_the_run_by_name(tmp_path: Path, where: str, words: str) -> None:
    trainer = make(tmp_path, batches(1))
    parameter = next(trainer.model.parameters())
    if where == "weight":
        parameter.data[:] = float("nan")
    else:
        parameter.register_hook(lambda gradient: gradient * float("nan"))
    before = [p.clone() for p in trainer.model.parameters()]
    with pytest.raises(NonFiniteError, match=words):
        trainer.train()
    for old, new in zip(before, trainer.model.parameters(), strict=True):
        assert torch.equal(old, new) or where == "weight"
    assert (tmp_path / "nonfinite-update-1.npz").is_file()


def test_a_source_that_skips_an_update_is_refused(tmp_path: Path) -> None:
    class Skipping(RecordedSource):
        def next_batch(self, on_piece: OnPiece | None = None) -> Batch | None:
            batch = super().next_batch(on_piece)
            return None if batch is None else Batch(batch.update + 1, batch.trajectories)

    trainer = make(tmp_path, batches(1))
    trainer.source = Skipping(batches(1))
    with pytest.raises(TrainingError, match="batch of update 2, but the next is 1"):
        trainer.train()


def test_foreign_checkpoints_are_refused(tmp_path: Path) -> None:
    make(tmp_path / "full", batches(1)).train()
    with pytest.raises(CheckpointError, match="saved by full fine-tuning"):
        make(tmp_path / "x", batches(2), peft_config=LORA["lora"]).train(tmp_path / "full")
    with pytest.raises(CheckpointError, match="is no checkpoint"):
        make(tmp_path / "x", batches(2)).train(tmp_path / "nowhere")
    make_model().save_pretrained(tmp_path / "checkpoint-0")
    with pytest.raises(CheckpointError, match=r"has no source\.json"):
        make(tmp_path / "x", batches(2)).train(tmp_path / "checkpoint-0")


def test_models_with_sliding_windows_need_the_sorted_layout(tmp_path: Path) -> None:
    model = make_model()
    model.config.layer_types = ["sliding_attention", "full_attention"]
    args = AgenticPPOConfig(output_dir=str(tmp_path), use_cpu=True)
    with pytest.raises(ConfigError, match="layout='sorted'"):
        AgenticPPOTrainer(model, args, RecordedSource([]))


def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    args = AgenticPPOConfig(output_dir=str(tmp_path), use_cpu=True)
    missing = str(tmp_path / "missing")
    with pytest.raises(
        CheckpointError, match=rf"'{missing}' is not a causal LM .* save_pretrained"
    ):
        AgenticPPOTrainer(missing, args, RecordedSource([]))
