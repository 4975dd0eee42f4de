"""Credit in the trainer: attention of the policy itself, in any layout, and every way to give credit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig
from transformers import Qwen3Config, Qwen3ForCausalLM

from agentic_gym.errors import ConfigError, TrainingError
from agentic_gym.rewards.credit.deciding import deciding_rows
from agentic_gym.rewards.credit.plan import credit_names, make_credit
from agentic_gym.trainers.attention_facts import attention_facts
from agentic_gym.trainers.config import AgenticPPOConfig
from agentic_gym.trainers.experience import Experience
from agentic_gym.trainers.ppo_trainer import AgenticPPOTrainer
from agentic_gym.trainers.scoring import prepare_model
from agentic_gym.trainers.source import RecordedSource
from agentic_gym.types import Outcome, TokenStream, Trajectory, Turn

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]

VOCAB = 32


def make_model(**changes: Any) -> Qwen3ForCausalLM:
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=VOCAB, hidden_size=16, intermediate_size=24, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2, head_dim=8, tie_word_embeddings=True, **changes,
    )  # fmt: skip
    return Qwen3ForCausalLM(config)


def trajectory(number: int) -> Trajectory:
    """Three turns; the second edits, the third only looks."""
    rng = np.random.default_rng(number)
    ids, sampled, of_turn = list(rng.integers(0, VOCAB, 4)), [False] * 4, [-1] * 4
    for turn in range(3):
        made, read = int(rng.integers(1, 5)), int(rng.integers(1, 4))
        ids += list(rng.integers(0, VOCAB, made + read))
        sampled += [True] * made + [False] * read
        of_turn += [turn] * (made + read)
    mask = np.asarray(sampled)
    stream = TokenStream(
        ids=np.asarray(ids, np.int32),
        sampled=mask,
        logprobs=np.where(mask, -np.log(VOCAB), 0).astype(np.float32),
        versions=np.where(mask, 0, -1).astype(np.int32),
        turns=np.asarray(of_turn, np.int32),
    )
    turns = (
        Turn("look", "seen", 0.0),
        Turn("edit", "done", 0.1, info={"edited": {"path": "a.py"}}),
        Turn("look", "", float(number % 2)),
    )
    group = f"g{number // 4}"
    return Trajectory(
        f"t{number}", "k", group, number, "p", turns, stream, Outcome.FAILED, True, False
    )


def eager_rows(model: Qwen3ForCausalLM, one: Trajectory) -> np.ndarray:
    """Mean attention of all layers and heads, computed the long way.  # [T, T]"""
    assert one.tokens is not None
    model.set_attn_implementation("eager")
    with torch.no_grad():
        out = model(torch.as_tensor(one.tokens.ids[None].astype(np.int64)), output_attentions=True)
    return torch.stack(out.attentions).mean((0, 2))[0].double().numpy()


@pytest.mark.parametrize("layout", ["packed", "sorted"])
def test_facts_are_those_of_eager_attention(layout: Any) -> None:
    batch = [trajectory(number) for number in range(5)]
    model = make_model()
    prepare_model(model, layout)
    found = attention_facts(model, batch, layout=layout, layers=1.0, token_budget=40)
    for one, facts in zip(batch, found, strict=True):
        assert one.tokens is not None
        assert facts is not None
        weights = eager_rows(make_model(), one)
        at = np.flatnonzero(one.tokens.sampled)
        decided = deciding_rows(one)
        assert one.tokens.turns[decided].tolist() == [1] * len(
            decided
        )  # the edit, not the look after it
        rows = weights[decided - 1].mean(0)
        wanted = np.where(at < decided[0], rows[at], 0.0)
        np.testing.assert_allclose(facts.deciding, wanted, atol=1e-5)
        turn = one.tokens.turns[at]
        for k in range(3):
            row = weights[at[turn == k] - 1].mean(0)
            for j in range(3):
                wanted_sum = row[at[turn == j]].sum() if j < k else 0.0
                assert facts.turns[k, j] == pytest.approx(wanted_sum, abs=1e-5)
        assert len(facts.reach) == len(facts.influence) == len(at)
        assert (facts.reach >= 0).all()
        assert np.isfinite(facts.influence).all()


def make(folder: Path, credit: str, **settings: Any) -> AgenticPPOTrainer:
    plan = make_credit(credit)
    peft = settings.pop("peft_config", None)
    data = [[trajectory(8 * update + i) for i in range(8)] for update in range(2)]
    values: dict[str, Any] = {
        "max_steps": 2, "minibatch_size": 8, "ppo_epochs": 1, "save_steps": 100, "use_cpu": True,
        "value_warmup_updates": 0, "advantage": plan.estimator, **settings,
    }  # fmt: skip
    args = AgenticPPOConfig(output_dir=str(folder), **values)
    return AgenticPPOTrainer(
        make_model(), args, RecordedSource(data), credit=plan, peft_config=peft
    )


def metrics(trainer: AgenticPPOTrainer) -> dict[str, float]:
    assert isinstance(trainer.source, RecordedSource)
    return dict(trainer.source.updates[-1].metrics)


@pytest.mark.parametrize("credit", [name for name in credit_names() if name != "model"])
def test_every_credit_trains(tmp_path: Path, credit: str) -> None:
    trainer = make(tmp_path, credit)
    before = {name: tensor.clone() for name, tensor in trainer.policy.weights().items()}
    trainer.train()
    assert not all(torch.equal(t, before[n]) for n, t in trainer.policy.weights().items())
    found = metrics(trainer)
    assert all(np.isfinite(value) for value in found.values())
    assert found.get("credit/credit_fallback", 0.0) == 0.0
    if credit == "process":
        assert found["credit/process_missing"] == 8.0  # nobody measured a state


@pytest.mark.parametrize("credit", ["attention", "preplan_anchor+causal_attention"])
@pytest.mark.parametrize(
    "settings",
    [
        {"layout": "sorted"},
        {"gradient_checkpointing": True},
        {"micro_batch_tokens": 30},
    ],
)
def test_layout_and_memory_settings_change_nothing(
    tmp_path: Path, credit: str, settings: dict[str, Any]
) -> None:
    usual, other = make(tmp_path / "a", credit), make(tmp_path / "b", credit, **settings)
    usual.train()
    other.train()
    weights = other.policy.weights()
    for name, tensor in usual.policy.weights().items():
        torch.testing.assert_close(weights[name], tensor, atol=2e-5, rtol=1e-4)


def test_an_update_computes_what_its_credit_reads(tmp_path: Path) -> None:
    def scored(credit: str) -> Experience:
        trainer = make(tmp_path / credit, credit)
        experience = Experience.gather([trajectory(0), trajectory(1)], 0)
        trainer.updater.score(trainer.model, experience)
        return experience

    narrow, whole = scored("attention").attention, scored("attention+preplan_anchor").attention
    for mine, full in zip(narrow, whole, strict=True):
        assert mine is not None
        assert full is not None
        np.testing.assert_allclose(mine.deciding, full.deciding, atol=1e-6)
        assert np.isfinite(full.influence).all()
        with pytest.raises(ConfigError, match="hold no 'influence', for which no part"):
            _ = mine.influence
    assert scored("outcome").attention == ()


def test_it_works_under_lora(tmp_path: Path) -> None:
    trainer = make(tmp_path, "attention", peft_config=LoraConfig(r=2, target_modules="all-linear"))
    trainer.train()
    assert metrics(trainer)["optimizer_steps"] == 1.0


def test_a_model_of_nan_falls_back_and_is_counted() -> None:
    model = make_model()
    prepare_model(model, "packed")
    with torch.no_grad():
        model.model.layers[1].self_attn.q_proj.weight[0, 0] = float("nan")
    batch = [trajectory(number) for number in range(3)]
    experience = Experience.gather(batch, 0)
    experience.attention = attention_facts(model, batch, layers=1.0)
    assert list(experience.attention) == [None] * 3
    settings = AgenticPPOConfig(output_dir="x", use_cpu=True)
    experience.estimate(settings, make_credit("attention"))
    assert experience.facts == {"credit_fallback": 3.0}
    plain = Experience.gather(batch, 0)
    plain.estimate(settings, make_credit("outcome"))
    np.testing.assert_allclose(experience.advantages, plain.advantages)


def test_an_estimator_that_the_settings_do_not_have_is_refused(tmp_path: Path) -> None:
    args = AgenticPPOConfig(output_dir=str(tmp_path), use_cpu=True, advantage="group")
    with pytest.raises(
        ConfigError, match=r"has the estimator 'turn_gae', and advantage is 'group'"
    ):
        AgenticPPOTrainer(make_model(), args, RecordedSource([]), credit=make_credit("attention"))


def test_a_batch_that_cannot_train_says_why(tmp_path: Path) -> None:
    one = trajectory(0)
    assert one.tokens is not None
    count = len(one.tokens)
    silent = replace(one.tokens, sampled=np.zeros(count, bool))
    data = [replace(one, tokens=silent), replace(trajectory(1), outcome=Outcome.INFRA_ERROR)]
    args = AgenticPPOConfig(output_dir=str(tmp_path), use_cpu=True, max_steps=1)
    with pytest.raises(
        TrainingError,
        match=rf"none of the 2 .* can train: 1 broke .*, in 1 nothing was sampled: .* {count} to",
    ):
        AgenticPPOTrainer(make_model(), args, RecordedSource([data])).train()
