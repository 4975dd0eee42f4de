"""Update tokens per second on episodes of long-tailed lengths, by layout, side by side in one run.

An optimiser step (forward, PPO loss, backward) over one minibatch, as

1. ``padded``: one rectangle as long as its longest episode, attention mask, output layer at every position
   after the prompt: the layout of TRL's trainers.
2. ``plain``: the same rectangle, output layer only where a token was sampled.
3. ``sorted``: rows sorted by length, padded micro-batches under a token budget.
4. ``packed``: rows end to end, attention within each: no padding (the trainer's default).

Only real tokens count. All four give the same loss, which is checked. The model is made from scratch: Qwen3,
hidden 192, 4 layers, vocabulary 1,024. Each measurement is the best of a few, in turns.

    python benchmarks/batching.py --threads 2
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, Qwen3Config

from agentic_gym.trainers import batching, losses, scoring, value_head

VOCAB = 1024
ADVANTAGE = 0.7


def make_model() -> Any:
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=VOCAB,
        hidden_size=192,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
    )
    model = AutoModelForCausalLM.from_config(config)
    value_head.attach(model)
    return model


def make_rows(count: int, median: int, longest: int) -> list[batching.Row]:
    """Lognormal lengths (σ = 1) up to a cap; after a prompt, turns of which a third is sampled."""
    rng = np.random.default_rng(0)
    rows, first = [], 0
    for _ in range(count):
        length = int(np.clip(rng.lognormal(np.log(median), 1.0), 64, longest))
        place = np.arange(length)
        sampled = place[(place >= 40) & (place % 60 >= 40)]
        rows.append(batching.Row(rng.integers(0, VOCAB, length), sampled, first))
        first += len(sampled)
    return rows


def step(model: Any, rows: list[batching.Row], layout: batching.Layout, budget: int) -> float:
    """Loss of one minibatch; its gradients are in the model."""
    if layout == "packed":
        scoring.prepare_model(model, layout)
    else:
        model.set_attn_implementation("sdpa")
    scorer = scoring.Scorer(model)
    count = sum(len(row.sampled) for row in rows)
    total = 0.0
    model.zero_grad()
    for group in batching.plan([r.length for r in rows], token_budget=budget, layout=layout):
        micro = batching.collate([rows[i] for i in group], layout=layout)
        scores = scorer(model, micro)
        total += backward(scores.logprobs, scores.values, count)
    return total


def padded_step(model: Any, rows: list[batching.Row]) -> float:
    """The same, with log-probabilities at every position after the shortest prompt."""
    model.set_attn_implementation("sdpa")
    model.zero_grad()
    micro = batching.collate(rows, layout="plain")
    width = micro.input_ids.shape[1]
    keep = width - int(min(row.sampled[0] for row in rows)) + 1
    output = model(
        input_ids=micro.input_ids,
        attention_mask=micro.attention_mask,
        logits_to_keep=keep,
        output_hidden_states=True,
        use_cache=False,
    )
    targets = torch.zeros(micro.input_ids.numel(), dtype=torch.long)
    targets[micro.select] = micro.targets
    targets = targets.view(len(rows), width)[:, -keep:]
    mask = torch.zeros(micro.input_ids.numel(), dtype=torch.bool)
    mask[micro.select] = True
    mask = mask.view(len(rows), width)[:, -keep:]
    logits = output.logits
    logprobs = logits.gather(-1, targets[..., None]).squeeze(-1) - logits.logsumexp(-1)
    values = value_head.find(model)(output.hidden_states[-1][:, -keep:])
    return backward(logprobs[mask], values[mask], len(micro.targets))


def backward(logprobs: torch.Tensor, values: torch.Tensor, count: int) -> float:
    old = logprobs.detach()
    policy = losses.policy_term(
        logprobs, old, old, torch.full_like(old, ADVANTAGE), count=count
    ).loss
    value = losses.value_term(
        values, torch.zeros_like(values), torch.ones_like(values), count=count
    )
    loss = policy + value
    torch.autograd.backward(loss)
    return float(loss.detach())


def best(repeats: int, *measurements: Callable[[], float]) -> tuple[list[float], list[float]]:
    """The least seconds of each, taken in turns, and what each returned."""
    seconds: list[list[float]] = []
    results: list[float] = []
    for _ in range(repeats):
        seconds.append([])
        results = []
        for measure in measurements:
            began = time.perf_counter()
            results.append(measure())
            seconds[-1].append(time.perf_counter() - began)
    return [min(column) for column in zip(*seconds, strict=True)], results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--episodes", type=int, default=32)
    parser.add_argument("--median", type=int, default=150, help="tokens of the median episode")
    parser.add_argument(
        "--longest", type=int, default=1200, help="tokens at which episodes are cut"
    )
    parser.add_argument("--budget", type=int, default=2048, help="tokens of a micro-batch")
    parser.add_argument("--output", type=Path, help="append the result to this JSONL file")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    model = make_model()
    rows = make_rows(options.episodes, options.median, options.longest)
    names = ("padded", "plain", "sorted", "packed")
    seconds, totals = best(
        options.repeats,
        lambda: padded_step(model, rows),
        lambda: step(model, rows, "plain", options.budget),
        lambda: step(model, rows, "sorted", options.budget),
        lambda: step(model, rows, "packed", options.budget),
    )
    if not np.allclose(totals, totals[0], atol=1e-5):
        raise SystemExit(
            f"the layouts disagree on the loss: {dict(zip(names, totals, strict=True))}"
        )
    tokens = sum(row.length for row in rows)
    result: dict[str, Any] = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {platform.system()}, torch {torch.__version__}",
        "threads": options.threads,
        "episodes": len(rows),
        "tokens": tokens,
        "longest": max(row.length for row in rows),
        "share_of_padding": round(1 - tokens / (len(rows) * max(r.length for r in rows)), 2),
    }
    for name, taken in zip(names, seconds, strict=True):
        result[f"tokens_per_s_{name}"] = round(tokens / taken)
    for name, taken in zip(names[1:], seconds[1:], strict=True):
        result[f"ratio_{name}"] = round(seconds[0] / taken, 2)
    for key, value in result.items():
        print(f"{key:28} {value}")
    if options.output is not None:
        with options.output.open("a") as file:
            file.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
