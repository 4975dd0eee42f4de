"""Attention rows beside fused attention, against eager attention."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from peft import LoraConfig
from transformers import (
    AttentionInterface,
    Gemma2Config,
    Gemma2ForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GptOssConfig,
    GptOssForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from agentic_gym.errors import ConfigError
from agentic_gym.trainers.attention_rows import attention_of
from agentic_gym.trainers.attention_sums import RowWeights
from agentic_gym.trainers.attention_watch import Segment, watching
from agentic_gym.trainers.policy import add_lora
from agentic_gym.trainers.scoring import ROW_ATTENTION, prepare_model
from agentic_gym.types import Outcome, TokenStream, Trajectory

VOCAB, LENGTH, LAYERS, HEADS, WINDOW = 31, 18, 3, 4, 6
SHAPE: dict[str, Any] = {
    "vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS, "num_key_value_heads": 2, "max_position_embeddings": 64,
    "tie_word_embeddings": False, "pad_token_id": 0, "bos_token_id": None, "eos_token_id": None,
}  # fmt: skip
KINDS: dict[str, Callable[[], Any]] = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SHAPE)),
    "llama_mha": lambda: LlamaForCausalLM(LlamaConfig(**SHAPE | {"num_key_value_heads": HEADS})),
    "qwen2": lambda: Qwen2ForCausalLM(
        Qwen2Config(**SHAPE, use_sliding_window=True, sliding_window=WINDOW, max_window_layers=1)
    ),
    "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config(**SHAPE, head_dim=16)),
    "mistral": lambda: MistralForCausalLM(MistralConfig(**SHAPE, sliding_window=WINDOW)),
    "gemma3": lambda: Gemma3ForCausalLM(
        Gemma3TextConfig(
            **SHAPE,
            head_dim=16,
            sliding_window=WINDOW,
            layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        )
    ),
    "gemma2": lambda: Gemma2ForCausalLM(Gemma2Config(**SHAPE, head_dim=16)),
    "gpt_oss": lambda: GptOssForCausalLM(
        GptOssConfig(
            **SHAPE,
            head_dim=16,
            sliding_window=WINDOW,
            num_local_experts=2,
            num_experts_per_tok=1,
            layer_types=["sliding_attention", "full_attention", "full_attention"],
            rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
        )
    ),
}


@pytest.fixture(scope="module", autouse=True)
def lora() -> Any:
    """A model in LoRA; made first, because peft and torch take half a second to begin."""
    return add_lora(build("llama"), LoraConfig(target_modules=["q_proj", "k_proj"]), seed=0)


@cache
def model_of(kind: str) -> Any:
    """A tiny model whose attention is far from uniform."""
    return build(kind)


def build(kind: str) -> Any:
    torch.manual_seed(0)
    model = KINDS[kind]()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1 or "sinks" in name:
                parameter.normal_(0, 0.3)
    return model.eval()


def trajectory(length: int, seed: int = 0, ids: Sequence[int] | None = None) -> Trajectory:
    rng = np.random.default_rng(seed)
    stream = TokenStream(
        ids=np.asarray(rng.integers(1, VOCAB, length) if ids is None else ids, np.int32),
        sampled=np.arange(length) > 2,
        logprobs=np.zeros(length, np.float32),
        versions=np.zeros(length, np.int32),
        turns=np.zeros(length, np.int32),
    )
    return Trajectory(
        f"t{seed}", "k", "g", 0, "p", (), stream, Outcome.FAILED, terminated=True, truncated=False
    )


def inputs(padding: str, length: int = LENGTH) -> dict[str, Any]:
    """Two lines, the second with five tokens of padding."""
    ids = torch.randint(1, VOCAB, (2, length), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids, dtype=torch.bool)
    mask[1, {"left": slice(0, 5), "right": slice(-5, None), "none": slice(0, 0)}[padding]] = False
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    return {"input_ids": ids, "attention_mask": mask, "position_ids": positions, "use_cache": False}


def eager_weights(model: Any, batch: dict[str, Any]) -> tuple[torch.Tensor, ...]:
    """Of each layer, [B, H, T, T]."""
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    with torch.no_grad():
        output = model(**batch, output_attentions=True)
    model.set_attn_implementation(before)
    return tuple(output.attentions)


def eager_mean(model: Any, one: Trajectory, tokens: npt.ArrayLike) -> np.ndarray[Any, Any]:
    """What ``attention_of`` says of one trajectory, by eager attention. [T]"""
    assert one.tokens is not None
    ids = torch.tensor(one.tokens.ids[None].astype(np.int64))
    weights = torch.stack(eager_weights(model, {"input_ids": ids, "use_cache": False}))
    mean: np.ndarray[Any, Any] = weights[:, 0][:, :, np.asarray(tokens) - 1].mean((0, 1, 2)).numpy()
    return mean


ROWS = (torch.tensor([3, 9, LENGTH - 1]), torch.tensor([6, 12]))
SEGMENTS = [Segment(i, i, 0, LENGTH, rows) for i, rows in enumerate(ROWS)]


def worst_difference(model: Any, batch: dict[str, Any], **options: Any) -> float:
    """Between watched and eager weights, over both lines and all layers."""
    expected = eager_weights(model, batch)
    raw = RowWeights()
    with torch.no_grad(), watching(model, SEGMENTS, raw, **options):
        model(**batch)
    return max(
        float((raw.layer(n, i).double() - layer[i][:, ROWS[i]].double()).abs().max())
        for n, layer in enumerate(expected)
        for i in range(2)
    )


@pytest.mark.parametrize("padding", ["none", "left", "right"])
@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"gemma2"}))
def test_rows_are_those_of_eager_attention(kind: str, padding: str) -> None:
    assert worst_difference(model_of(kind), inputs(padding)) < 1e-5


@pytest.mark.parametrize("padding", ["none", "left", "right"])
@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"gemma2", "gpt_oss"}))
def test_the_output_is_that_of_sdpa_to_the_bit(kind: str, padding: str) -> None:
    model, batch = model_of(kind), inputs(padding)
    with torch.no_grad():
        expected = model(**batch).logits
        with watching(model, SEGMENTS, RowWeights()):
            got = model(**batch).logits
    assert model.config._attn_implementation == "sdpa"
    assert torch.equal(got, expected)


def test_sinks_take_their_part_of_the_output_and_its_gradient() -> None:
    model, batch = build("gpt_oss"), inputs("left")
    real = batch["attention_mask"]
    outputs, gradients = [], []
    for watched in (False, True):
        model.zero_grad()
        if watched:
            with watching(model, SEGMENTS, RowWeights()):
                logits = model(**batch).logits[real]
        else:
            model.set_attn_implementation("eager")
            logits = model(**batch).logits[real]
        logits.square().mean().backward()
        outputs.append(logits.detach())
        gradients.append(model.model.layers[0].self_attn.sinks.grad.clone())
    torch.testing.assert_close(outputs[1], outputs[0], atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(gradients[1], gradients[0], atol=1e-6, rtol=1e-4)
    assert float(gradients[0].abs().max()) > 1e-4


def test_bfloat16_is_within_its_own_rounding() -> None:
    """Eager attention rounds scores and weights to bfloat16, whose steps near 1 are 2^-8."""
    model = build("qwen3").to(torch.bfloat16)
    assert worst_difference(model, inputs("left")) < 0.03


def test_scores_are_float32_under_autocast() -> None:
    model, raw = model_of("llama"), RowWeights()
    query, key = torch.randn(2, 1, HEADS, 9, 16, generator=torch.Generator().manual_seed(0))
    segment = Segment(0, 0, 0, 9, torch.arange(9))
    with watching(model, [segment], raw, layers=[0]), torch.autocast("cpu", torch.bfloat16):
        AttentionInterface()["watched"](model.model.layers[0].self_attn, query, key, key, None)
    scores = (query[0] @ key[0].transpose(1, 2)) / 4
    future = torch.ones(9, 9, dtype=torch.bool).triu(1)
    torch.testing.assert_close(
        raw.layer(0, 0), scores.masked_fill(future, -torch.inf).softmax(-1), atol=1e-6, rtol=0
    )


@pytest.mark.parametrize("heads", [[2, 0], "all"])
def test_a_mask_of_ones_own_may_differ_by_head(heads: Any) -> None:
    model, raw = model_of("llama"), RowWeights()
    mask = torch.randn(2, HEADS, LENGTH, LENGTH, generator=torch.Generator().manual_seed(0))
    mask += torch.full((LENGTH, LENGTH), -1e30).triu(1)
    batch = inputs("none") | {"attention_mask": mask}
    expected = eager_weights(model, batch)
    with torch.no_grad(), watching(model, SEGMENTS, raw, heads=heads):
        model(**batch)
    for n, layer in enumerate(expected):
        want = layer[1][:, ROWS[1]] if heads == "all" else layer[1][[0, 2]][:, ROWS[1]]
        torch.testing.assert_close(raw.layer(n, 1), want, atol=1e-5, rtol=0)


@pytest.mark.parametrize("cells", [1, 40, 1 << 20])
def test_weights_do_not_depend_on_how_many_are_computed_at_once(cells: int) -> None:
    assert worst_difference(model_of("qwen2"), inputs("right"), cells=cells) < 1e-5


def test_lora_is_part_of_the_policy(lora: Any) -> None:
    model = lora
    plain = worst_difference(model, inputs("left"))
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter)
    means = [attention_of(model, [trajectory(9)], [np.asarray([5, 8])])[0].weights]
    assert max(plain, worst_difference(model, inputs("left"))) < 1e-5
    with model.disable_adapter():
        means.append(attention_of(model, [trajectory(9)], [np.asarray([5, 8])])[0].weights)
        assert worst_difference(model, inputs("none")) < 1e-5
    assert float(np.abs(means[0] - means[1]).max()) > 0.01


@pytest.mark.parametrize("reentrant", [False, True])
def test_gradient_checkpointing_neither_repeats_rows_nor_changes_gradients(reentrant: bool) -> None:
    model = build("llama").train()
    batch = inputs("right")
    expected = eager_weights(model, batch)
    model(**batch).logits.square().mean().backward()
    plain = model.model.layers[0].self_attn.q_proj.weight.grad.clone()
    model.zero_grad()
    model.enable_input_require_grads()
    model.activation_checkpointing_enable({"use_reentrant": reentrant})
    raw = RowWeights()
    with watching(model, SEGMENTS, raw):
        model(**batch).logits.square().mean().backward()
    torch.testing.assert_close(model.model.layers[0].self_attn.q_proj.weight.grad, plain)
    for n in range(LAYERS):
        got = raw.layer(n, 0)
        assert not got.requires_grad
        torch.testing.assert_close(got, expected[n][0][:, ROWS[0]], atol=1e-5, rtol=0)


@pytest.mark.parametrize("layout", ["packed", "sorted", "plain"])
def test_trajectories_are_judged_as_if_alone(layout: Any) -> None:
    model = build("qwen3")
    batch = [trajectory(length, seed) for seed, length in enumerate((12, 5, 18, 7))]
    tokens = [np.asarray(x) for x in ([4, 5, 11], [3], [6, 7], [3, 4, 5, 6])]
    prepare_model(model, layout)
    before = model.config._attn_implementation
    found = attention_of(model, batch, tokens, layout=layout, token_budget=20)
    assert model.config._attn_implementation == before
    for one, chosen, got in zip(batch, tokens, found, strict=True):
        assert got.problem is None
        np.testing.assert_allclose(got.weights[0], eager_mean(model, one, chosen), atol=1e-5)
        assert got.weights.sum() == pytest.approx(1)


def test_a_window_needs_no_other_layout_than_sorted() -> None:
    model, one = model_of("mistral"), trajectory(16)
    got = attention_of(model, [one, trajectory(9, 1)], [np.asarray([12, 15])] * 1 + [np.asarray([4])],
                       layout="sorted")[0]  # fmt: skip
    np.testing.assert_allclose(got.weights[0], eager_mean(model, one, [12, 15]), atol=1e-5)
    assert (got.weights[0, : 12 - WINDOW] == 0).all()
    assert got.weights[0, 12 - WINDOW] > 0
    assert (got.weights[0, 15:] == 0).all()  # the last chosen token is predicted, not read


def test_groups_layers_and_heads() -> None:
    model, one = model_of("qwen3"), trajectory(12)
    raw, chosen = RowWeights(), np.asarray([4, 7, 8, 11])
    (got,) = attention_of(
        model, [one], [chosen], groups=[np.asarray([1, 0, 0, 2])], layers=[-1, 0], heads=[3, 1],
        also=raw,
    )  # fmt: skip
    weights = torch.stack([raw.layer(n, 0) for n in (0, 2)]).double().numpy()  # [L, H, R, S]
    assert weights.shape == (2, 2, 4, 11)
    expected = np.stack([weights[:, :, rows].mean((0, 1, 2)) for rows in ([1, 2], [0], [3])])
    np.testing.assert_allclose(got.weights[:, :11], expected, atol=1e-6)
    assert one.tokens is not None
    ids = torch.tensor(one.tokens.ids[None].astype(np.int64))
    eager = eager_weights(model, {"input_ids": ids})
    for place, n in enumerate((0, 2)):
        part = eager[n][0, [1, 3]][:, chosen - 1, :11]
        np.testing.assert_allclose(weights[place], part.numpy(), atol=1e-5)


def test_the_middle_share_of_the_layers() -> None:
    model, one, chosen = model_of("llama"), trajectory(8), [np.asarray([4, 6])]
    whole = attention_of(model, [one], chosen)[0].weights
    middle = attention_of(model, [one], chosen, layers=0.4)[0].weights
    np.testing.assert_array_equal(middle, attention_of(model, [one], chosen, layers=[1])[0].weights)
    assert float(np.abs(whole - middle).max()) > 0.01
    np.testing.assert_array_equal(whole, attention_of(model, [one], chosen, layers=1.0)[0].weights)


def test_a_nan_is_reported_of_the_trajectories_that_have_it() -> None:
    for layout in ("packed", "sorted"):
        model = build("qwen3")
        with torch.no_grad():
            model.get_input_embeddings().weight[VOCAB - 1] = torch.nan
        good = trajectory(8, ids=[1, 2, 3, 4, 5, 6, 7, 8])
        bad = trajectory(8, ids=[1, VOCAB - 1, 3, 4, 5, 6, 7, 8])
        late = trajectory(8, ids=[1, 2, 3, 4, 5, 6, 7, VOCAB - 1])  # predicted, never read
        found = attention_of(
            model,
            [good, bad, late],
            [np.asarray([5, 7])] * 3,
            layout=layout,
        )
        assert [item.problem for item in found] == [
            None,
            "its attention weights are not finite",
            None,
        ]
        assert found[0].weights.sum() == pytest.approx(1)
        assert not found[1].weights.any()


def test_nothing_to_look_at_is_reported() -> None:
    silent = Trajectory("t", "k", "g", 0, "p", (), None, Outcome.FAILED, True, False)
    none = np.zeros(0, np.int64)
    found = attention_of(
        model_of("llama"), [silent, trajectory(6), trajectory(7)], [none, none, np.asarray([3])]
    )
    assert [item.problem for item in found] == [
        "it has no token stream", "no token of it was chosen", None,
    ]  # fmt: skip
    assert [item.weights.shape for item in found] == [(1, 0), (1, 6), (1, 7)]
    assert attention_of(model_of("llama"), [], []) == []


def test_models_that_cannot_be_watched_are_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"Gemma2Attention changes its attention scores \(softcap\)"
    ):
        attention_of(model_of("gemma2"), [trajectory(6)], [np.asarray([4])], layout="sorted")
    assert model_of("gemma2").config._attn_implementation == "eager"
    for kind in ("gemma3", "gpt_oss", "gemma2"):
        with pytest.raises(ConfigError, match="Set layout='sorted' instead"):
            attention_of(model_of(kind), [trajectory(6)], [np.asarray([4])])


def test_packed_rows_with_sinks_are_refused() -> None:
    model = build("gpt_oss")
    model.config.layer_types = ["full_attention"] * LAYERS
    with pytest.raises(ConfigError, match=r"changes its scores \(s_aux\).*layout='sorted'"):
        attention_of(model, [trajectory(6)], [np.asarray([4])])


def test_packed_rows_longer_than_the_window_are_refused() -> None:
    model = build("mistral")
    short = attention_of(model, [trajectory(6), trajectory(7, 1)], [np.asarray([4])] * 2)
    for got, one in zip(short, (trajectory(6), trajectory(7, 1)), strict=True):
        np.testing.assert_allclose(got.weights[0], eager_mean(model, one, [4]), atol=1e-5)
    with pytest.raises(ConfigError, match=r"a row has 7 tokens.*window of 6.*layout='sorted'"):
        attention_of(model, [trajectory(9)], [np.asarray([7])])
    prepare_model(model, "packed")  # so for training
    assert model.config._attn_implementation == ROW_ATTENTION
    with pytest.raises(ConfigError, match="a row has 18 tokens"):
        model(**inputs("none"))
