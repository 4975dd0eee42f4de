"""Every layout shows every sampled token to the model once, in its own context and no other."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import Qwen3Config, Qwen3ForCausalLM

from agentic_gym.trainers import batching, scoring, value_head

seeds = st.integers(0, 2**31 - 1)
lengths = st.lists(st.integers(2, 40), min_size=1, max_size=12)
PAD = EOS = 0
VOCAB = 29


def tiny() -> Qwen3ForCausalLM:
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=VOCAB, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=8, tie_word_embeddings=False,
        pad_token_id=PAD, eos_token_id=EOS,
    )  # fmt: skip
    model = Qwen3ForCausalLM(config).double()
    head = value_head.attach(model, detach=False).double()
    torch.nn.init.normal_(head.outer.weight)
    return model


MODEL = tiny()


def make_rows(sizes: list[int], seed: int) -> list[batching.Row]:
    rng = np.random.default_rng(seed)
    rows, first = [], 0
    for size in sizes:
        ids = rng.integers(0, VOCAB, size)
        sampled = np.flatnonzero(rng.random(size) < 0.5)
        sampled = sampled[sampled > 0]
        sampled = sampled if len(sampled) else np.asarray([size - 1])
        ids[sampled[-1]] = EOS  # an end-of-turn token that looks like padding
        rows.append(batching.Row(ids, sampled, first))
        first += len(sampled)
    return rows


def alone(row: batching.Row) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities of a row by the stock attention, one row at a time."""
    MODEL.set_attn_implementation("eager")
    logits = MODEL(input_ids=torch.tensor(row.ids)[None]).logits[0]
    logprobs = logits.log_softmax(-1)
    at = torch.tensor(row.sampled)
    entropy = -(logprobs.exp() * logprobs).sum(-1)
    return logprobs[at - 1, torch.tensor(row.ids)[at]], entropy[at - 1]


@settings(deadline=None, derandomize=True, max_examples=12)
@given(sizes=lengths, seed=seeds, budget=st.integers(1, 120))
def test_layouts_agree_with_one_row_at_a_time(sizes: list[int], seed: int, budget: int) -> None:
    rows = make_rows(sizes, seed)
    total = sum(len(row.sampled) for row in rows)
    expected = [torch.cat(x) for x in zip(*(alone(row) for row in rows), strict=True)]
    values = []
    for layout in ("packed", "sorted", "plain"):
        MODEL.set_attn_implementation(scoring.ROW_ATTENTION if layout == "packed" else "sdpa")
        scorer = scoring.Scorer(MODEL)
        got = torch.full((3, total), float("nan"), dtype=torch.float64)
        groups = batching.plan([r.length for r in rows], token_budget=budget, layout=layout)
        for group in groups:
            micro = batching.collate([rows[i] for i in group], layout=layout)
            scores = scorer(MODEL, micro)
            got[:, micro.index] = torch.stack(
                [scores.logprobs.double(), scores.entropy.double(), scores.values.double()]
            ).detach()
        torch.testing.assert_close(got[0], expected[0], atol=1e-5, rtol=0)
        torch.testing.assert_close(got[1], expected[1], atol=1e-5, rtol=0)
        values.append(got[2])
    assert not bool(torch.isnan(torch.stack(values)).any())
    torch.testing.assert_close(values[0], values[1])
    torch.testing.assert_close(values[0], values[2])


@settings(deadline=None, derandomize=True, max_examples=80)
@given(sizes=st.lists(st.integers(1, 300), max_size=40), budget=st.integers(1, 700))
def test_a_plan_takes_every_row_once_and_keeps_the_budget(sizes: list[int], budget: int) -> None:
    for layout in ("packed", "sorted", "plain"):
        groups = batching.plan(sizes, token_budget=budget, layout=layout)
        assert sorted(i for group in groups for i in group) == list(range(len(sizes)))
        for group in groups:
            used = [sizes[i] for i in group]
            cells = sum(used) if layout == "packed" else max(used) * len(used)
            assert layout == "plain" or cells <= budget or len(group) == 1
