"""Tokens per second of the transformers engine, side by side in one run.

1. 32 concurrent multi-turn episodes against the same episodes one at a time.
2. Completions of mixed lengths against ``model.generate`` on the same prompts in one left-padded batch, which
   goes on until its longest is finished.

The model is made from scratch: Qwen3, hidden 192, 4 layers, vocabulary 1,024. Each measurement is the best
of a few, so that other load on the machine counts little; the two sides of a ratio take turns.

    python benchmarks/engine.py --threads 2
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import json
import platform
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, GenerationConfig, Qwen3Config

from agentic_gym.engines.transformers import TransformersEngine
from agentic_gym.types import SamplingParams

VOCAB = 1024
Episode = list[tuple[list[int], int]]
"""Per turn: the environment's tokens, and how many the policy answers with."""


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
    return AutoModelForCausalLM.from_config(config).eval()


def make_episodes(count: int, turns: int) -> list[Episode]:
    rng = random.Random(0)

    def ids(low: int, high: int) -> list[int]:
        return [rng.randrange(VOCAB) for _ in range(rng.randrange(low, high))]

    return [
        [
            (ids(150, 300) if turn == 0 else ids(20, 80), rng.randrange(15, 60))
            for turn in range(turns)
        ]
        for _ in range(count)
    ]


async def play(engine: TransformersEngine, name: str, episode: Episode) -> int:
    prompt: list[int] = []
    sampled = 0
    for turn, (observed, answer) in enumerate(episode):
        prompt += observed
        completion = await engine.generate(
            prompt,
            SamplingParams(max_tokens=answer, seed=turn),
            request_id=f"{name}/{turn}",
            session_id=name,
        )
        prompt += completion.token_ids
        sampled += len(completion.token_ids)
    await engine.release(name)
    return sampled


def concurrent(engine: TransformersEngine, episodes: list[Episode], at_once: int) -> float:
    """Tokens per second with so many episodes at once."""

    async def main() -> int:
        gate = asyncio.Semaphore(at_once)

        async def one(index: int, episode: Episode) -> int:
            async with gate:
                return await play(engine, str(index), episode)

        return sum(await asyncio.gather(*(one(i, e) for i, e in enumerate(episodes))))

    began = time.perf_counter()
    return asyncio.run(main()) / (time.perf_counter() - began)


def batched_generate(model: Any, prompts: list[list[int]], lengths: list[int]) -> float:
    """Wanted tokens per second of one left-padded batch."""
    longest = max(map(len, prompts))
    ids = torch.zeros(len(prompts), longest, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, prompt in enumerate(prompts):
        ids[row, longest - len(prompt) :] = torch.tensor(prompt)
        mask[row, longest - len(prompt) :] = 1
    settings = GenerationConfig(
        do_sample=True, top_k=0, max_new_tokens=max(lengths), pad_token_id=0, eos_token_id=None
    )
    began = time.perf_counter()
    with torch.inference_mode():
        model.generate(ids, attention_mask=mask, generation_config=settings)
    return sum(lengths) / (time.perf_counter() - began)


def engine_once(engine: TransformersEngine, prompts: list[list[int]], lengths: list[int]) -> float:
    """Tokens per second of the same prompts and lengths by the engine."""
    return concurrent(engine, [[pair] for pair in zip(prompts, lengths, strict=True)], len(prompts))


def best(repeats: int, *measurements: Callable[[], float]) -> list[float]:
    """The best of each, taken in turns."""
    rounds = [[measure() for measure in measurements] for _ in range(repeats)]
    return [max(column) for column in zip(*rounds, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--episodes", type=int, default=64)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--output", type=Path, help="append the result to this JSONL file")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    model = make_model()
    engine = TransformersEngine(model, max_batch=32, max_context=1024, threads=options.threads)
    episodes = make_episodes(options.episodes, options.turns)
    few = episodes[: max(1, options.episodes // 16)]
    many, single = best(
        options.repeats,
        lambda: concurrent(engine, episodes, 32),
        lambda: concurrent(engine, few, 1),
    )
    rng = random.Random(1)
    prompts = [[rng.randrange(VOCAB) for _ in range(rng.randrange(60, 300))] for _ in range(32)]
    lengths = [min(200, int(rng.lognormvariate(3.6, 0.8)) + 4) for _ in range(32)]
    ours, theirs = best(
        options.repeats,
        lambda: engine_once(engine, prompts, lengths),
        lambda: batched_generate(model, prompts, lengths),
    )
    asyncio.run(engine.close())
    result = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {platform.system()}, torch {torch.__version__}",
        "threads": options.threads,
        "tokens_per_s_32_at_once": round(many),
        "tokens_per_s_one_at_a_time": round(single),
        "ratio_concurrent": round(many / single, 2),
        "tokens_per_s_mixed_lengths": round(ours),
        "tokens_per_s_generate": round(theirs),
        "ratio_generate": round(ours / theirs, 2),
    }
    for key, value in result.items():
        print(f"{key:28} {value}")
    if options.output is not None:
        with options.output.open("a") as file:
            file.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
