"""Norms of gradients by part of the model."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from transformers import Qwen3Config, Qwen3ForCausalLM

from agentic_gym.trainers.diagnosis.facts import gather
from agentic_gym.trainers.diagnosis.rules import diagnose
from agentic_gym.trainers.diagnosis.synthetic import SyntheticRun
from agentic_gym.trainers.experience import Experience
from agentic_gym.trainers.gradient_norms import layer_norms, mean_norms
from agentic_gym.trainers.model_parts import PREFIX, began_in, part_of
from agentic_gym.trainers.value_head import NAME, attach, is_value_parameter


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("model.layers.11.self_attn.q_proj.weight", "layer.11"),
        ("module.model.layers.0.input_layernorm.weight", "layer.0"),
        ("base_model.model.model.layers.3.mlp.gate_proj.lora_A.default.weight", "layer.3"),
        ("model.layers.3.mlp.experts.7.up_proj.weight", "layer.3"),
        ("model.layers.3.mlp.gate.weight", "router.3"),
        ("model.layers.3.block_sparse_moe.gate.weight", "router.3"),
        ("model.layers.3.mlp.router.bias", "router.3"),
        ("model.layers.3.mlp.shared_expert_gate.weight", "router.3"),
        ("transformer.h.5.mlp.c_fc.weight", "layer.5"),
        ("model.embed_tokens.weight", "embedding"),
        ("transformer.wte.weight", "embedding"),
        ("lm_head.weight", "head"),
        ("base_model.model.lm_head.lora_B.default.weight", "head"),
        ("base_model.model.v_head.outer.bias", "value_head"),
        ("model.norm.weight", "rest"),
    ],
)
def test_parameters_belong_to_parts(name: str, part: str) -> None:
    assert part_of(name) == part


def test_the_value_head_is_called_as_the_trainer_calls_it() -> None:
    names = [f"{NAME}.inner.weight", f"model.{NAME}.outer.bias", "model.norm.weight"]
    assert [part_of(n) == "value_head" for n in names] == [is_value_parameter(n) for n in names]


@pytest.mark.parametrize(
    ("parts", "first"),
    [
        (["embedding", "head", "layer.0", "rest"], "head"),
        (["embedding", "layer.0", "layer.11", "layer.9"], "layer.11"),
        (["layer.2", "router.2", "router.1", "embedding"], "router.2"),
        (["rest", "layer.3"], "rest"),
        (["value_head"], "value_head"),
        (["value_head", "embedding"], "embedding"),
    ],
)
def test_it_began_where_the_backward_pass_came_first(parts: list[str], first: str) -> None:
    assert began_in(parts) == first


def test_a_nan_runs_from_where_it_began_to_the_embedding() -> None:
    model = tiny(tied=False)
    module = dict(model.named_modules())["model.layers.1.mlp"]
    module.register_full_backward_hook(lambda _, inputs, __: (inputs[0] * math.nan,))
    model(input_ids=torch.arange(8)[None]).logits.sum().backward()
    broken = [name for name, norm in layer_norms(model).items() if math.isnan(norm)]
    assert "layer.0" in broken
    assert "head" not in broken
    assert began_in(broken) == "layer.1"


def tiny(tied: bool) -> nn.Module:
    torch.manual_seed(0)
    model: nn.Module = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=32,
            hidden_size=16,
            intermediate_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=8,
            tie_word_embeddings=tied,
        )
    )
    attach(model)
    return model


def test_squares_of_the_parts_add_up_to_the_whole() -> None:
    model = tiny(tied=False)
    assert layer_norms(model) == {}
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    norms = layer_norms(model)
    assert set(norms) == {"embedding", "layer.0", "layer.1", "head", "value_head", "rest"}
    whole = nn.utils.clip_grad_norm_(model.parameters(), math.inf)
    assert math.hypot(*norms.values()) == pytest.approx(float(whole), rel=1e-5)
    own = [p.grad for n, p in model.named_parameters() if ".layers.1." in n and p.grad is not None]
    expected = torch.cat([g.flatten() for g in own]).norm()
    assert norms["layer.1"] == pytest.approx(float(expected), rel=1e-5)


def test_parts_without_gradient_are_left_out_and_nothing_is_changed() -> None:
    model = tiny(tied=True)
    for name, parameter in model.named_parameters():
        if ".layers.0." in name or "v_head" in name:
            parameter.grad = torch.ones_like(parameter)
    assert set(layer_norms(model)) == {"layer.0", "value_head"}
    assert all(p.grad is None or bool((p.grad == 1).all()) for p in model.parameters())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_does_not_overflow_in_the_norm(dtype: torch.dtype) -> None:
    model = nn.Linear(64, 64, dtype=dtype)
    model.weight.grad = torch.full_like(model.weight, 1e4)
    assert layer_norms(model)["rest"] == pytest.approx(64e4, rel=1e-2)


def test_a_nan_stays_where_it_is() -> None:
    model = tiny(tied=True)
    for name, parameter in model.named_parameters():
        parameter.grad = torch.full_like(parameter, math.nan if "layers.1." in name else 1.0)
    broken = {name for name, norm in layer_norms(model).items() if math.isnan(norm)}
    assert broken == {"layer.1"}


def test_metrics_are_means_over_the_steps_that_have_the_part() -> None:
    steps = [{"value_head": 1.0}, {"value_head": 3.0, "layer.0": 4.0}]
    assert mean_norms(steps) == {f"{PREFIX}value_head": 2.0, f"{PREFIX}layer.0": 4.0}
    assert mean_norms([]) == {}


def test_what_the_trainer_saves_can_be_read(tmp_path: Path) -> None:
    from agentic_gym.store import RunStore

    run = SyntheticRun(updates=3, groups=8, group_size=1, rise=None).write(tmp_path)
    with RunStore(run, readonly=True) as store:
        ((_, names),) = store.batches_after(2)
        experience = Experience.gather(store.trajectories(names), 3)
    experience.values[experience.part(5)] = np.inf
    experience.save(run / "nonfinite-update-4.npz")
    (finding,) = diagnose(gather(run))
    count = len(experience.rows[5].sampled)
    assert finding.figure == count
    assert (
        f"value head is not finite ({count} of them, first in trajectory {names[5]})"
        in finding.sentence
    )
