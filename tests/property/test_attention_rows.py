"""Watched rows are those of eager attention, whatever the shapes, paddings and row sets."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from agentic_gym.trainers.attention_rows import attention_of
from agentic_gym.trainers.attention_sums import RowWeights
from agentic_gym.trainers.attention_watch import Segment, watching
from agentic_gym.types import Outcome, TokenStream, Trajectory

VOCAB = 29
CLASSES: dict[str, tuple[Any, Any]] = {
    "llama": (LlamaConfig, LlamaForCausalLM),
    "mistral": (MistralConfig, MistralForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
}


@cache
def model_of(kind: str, kv_heads: int, window: int) -> Any:
    torch.manual_seed(0)
    config, model = CLASSES[kind]
    extra = {"sliding_window": window} if kind == "mistral" else {}
    lm = model(
        config(
            vocab_size=VOCAB, hidden_size=24, intermediate_size=24, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=kv_heads, head_dim=8, pad_token_id=0,
            bos_token_id=None, eos_token_id=None, tie_word_embeddings=False, **extra,
        )
    )  # fmt: skip
    with torch.no_grad():
        for parameter in lm.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.3)
    return lm.eval()


def models() -> st.SearchStrategy[Any]:
    return st.builds(
        model_of,
        st.sampled_from(sorted(CLASSES)),
        st.sampled_from([1, 2, 4]),
        st.sampled_from([2, 7]),
    )


def eager(model: Any, **batch: Any) -> tuple[torch.Tensor, ...]:
    model.set_attn_implementation("eager")
    with torch.no_grad():
        weights = model(**batch, use_cache=False, output_attentions=True).attentions
    model.set_attn_implementation("sdpa")
    return tuple(weights)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(data=st.data(), model=models(), width=st.integers(1, 24), cells=st.integers(1, 300))
def test_padded_lines(data: st.DataObject, model: Any, width: int, cells: int) -> None:
    mask = torch.ones(data.draw(st.integers(1, 3)), width, dtype=torch.bool)
    segments = []
    for line in range(len(mask)):
        pad = data.draw(st.integers(0, width - 1))
        at_left = data.draw(st.booleans())
        mask[line, : pad if at_left else 0] = False
        mask[line, width if at_left else width - pad :] = False
        real = mask[line].nonzero()[:, 0].tolist()
        rows = sorted(data.draw(st.sets(st.sampled_from(real), max_size=6)))
        segments.append(Segment(line, line, 0, width, torch.tensor(rows, dtype=torch.long)))
    ids = torch.tensor(np.random.default_rng(width).integers(1, VOCAB, mask.shape))
    batch = {"input_ids": ids, "attention_mask": mask}
    batch["position_ids"] = (mask.cumsum(-1) - 1).clamp(min=0)
    expected, raw = eager(model, **batch), RowWeights()
    with torch.no_grad(), watching(model, segments, raw, cells=cells):
        model(**batch, use_cache=False)
    for segment in segments:
        for n, layer in enumerate(expected):
            if len(segment.rows):
                want = layer[segment.line][:, segment.rows]
                torch.testing.assert_close(raw.layer(n, segment.line), want, atol=1e-5, rtol=0)


def trajectory(ids: np.ndarray[Any, Any]) -> Trajectory:
    n = len(ids)
    stream = TokenStream(
        ids.astype(np.int32), np.arange(n) > 0, np.zeros(n, np.float32), np.zeros(n, np.int32),
        np.zeros(n, np.int32),
    )  # fmt: skip
    return Trajectory("t", "k", "g", 0, "", (), stream, Outcome.FAILED, True, False)


@settings(deadline=None, derandomize=True, max_examples=40)
@given(
    data=st.data(),
    model=models(),
    sizes=st.lists(st.integers(2, 24), min_size=1, max_size=5),
    budget=st.integers(1, 60),
)
def test_trajectories_in_every_layout(
    data: st.DataObject, model: Any, sizes: list[int], budget: int
) -> None:
    rng = np.random.default_rng(sum(sizes))
    batch, tokens, groups, expected = [], [], [], []
    for size in sizes:
        batch.append(trajectory(rng.integers(0, VOCAB, size)))
        chosen = data.draw(st.sets(st.integers(1, size - 1), max_size=5))
        tokens.append(np.asarray(sorted(chosen), np.int64))
        count = data.draw(st.integers(1, 2)) if len(chosen) > 1 else 1
        groups.append(np.arange(len(chosen)) % count)
        ids = torch.tensor(batch[-1].tokens.ids[None].astype(np.int64))  # type: ignore[union-attr]
        weights = torch.stack([layer[0] for layer in eager(model, input_ids=ids)]).mean((0, 1))
        parts = [tokens[-1][groups[-1] == g] - 1 for g in range(count)]
        expected.append(
            np.stack(
                [weights[rows].mean(0).numpy() for rows in parts if len(rows)] or [np.zeros(size)]
            )
        )
    windowed = model.config.model_type == "mistral"
    for layout in ("sorted", "plain") if windowed else ("packed", "sorted", "plain"):
        found = attention_of(
            model,
            batch,
            tokens,
            groups=groups,
            layout=layout,
            token_budget=budget,
        )
        for got, want, chosen_T in zip(found, expected, tokens, strict=True):
            assert (got.problem is None) == (len(chosen_T) > 0)
            np.testing.assert_allclose(got.weights, want, atol=1e-5)
