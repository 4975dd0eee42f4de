"""Whatever joins, leaves, is aborted or published: logprobs are those of a plain forward pass."""

import asyncio
import functools
import random
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    Olmo2Config,
    PretrainedConfig,
    Qwen2Config,
    Qwen3Config,
)

from agentic_gym.engines.base import PublishMode
from agentic_gym.engines.transformers import TransformersEngine
from agentic_gym.types import Completion, SamplingParams

VOCAB, CONTEXT = 61, 96
SIZES: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 128,
    "initializer_range": 0.25,
}
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 1e4,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
CONFIGS: dict[str, tuple[PretrainedConfig, bool]] = {
    "qwen3": (Qwen3Config(**SIZES, tie_word_embeddings=True), True),
    "qwen2": (Qwen2Config(**SIZES), True),
    "llama": (LlamaConfig(**SIZES, rope_parameters=LLAMA3_ROPE), True),
    "llama-bias": (LlamaConfig(**SIZES, mlp_bias=True, attention_bias=True), False),
    "olmo2": (Olmo2Config(**SIZES), False),
}


@functools.cache
def make_model(name: str, seed: int) -> Any:
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(CONFIGS[name][0]).eval()
    for parameter_name, parameter in model.named_parameters():
        if "norm" in parameter_name or "bias" in parameter_name:
            parameter.data.add_(0.3 * torch.randn_like(parameter))
    return model


@torch.no_grad()
def worst_difference(
    models: Mapping[int, Any], prompt: list[int], completion: Completion, temperature: float
) -> float:
    """Largest difference to the plain forward pass of the version that sampled each token."""
    if not completion.token_ids:
        return 0.0
    ids = torch.tensor([[*prompt, *completion.token_ids]])
    worst = 0.0
    for version in set(completion.weight_versions):
        logprobs = (models[version](ids).logits[0] / (temperature or 1.0)).log_softmax(-1)
        for index, token in enumerate(completion.token_ids):
            if completion.weight_versions[index] == version:
                expected = logprobs[len(prompt) + index - 1, token].item()
                worst = max(worst, abs(completion.logprobs[index] - expected))
    return worst


async def play(seed: int, models: dict[int, Any]) -> tuple[float, int]:
    rng = random.Random(seed)
    engine = TransformersEngine(
        models[0], max_batch=3, kv_rows=4, max_context=CONTEXT, prefill_tokens=17, threads=1
    )
    worst, tokens = 0.0, 0

    async def episode(number: int) -> None:
        nonlocal worst, tokens
        prompt = [rng.randrange(VOCAB) for _ in range(rng.randrange(1, 30))]
        session = f"e{number}" if rng.random() < 0.8 else None
        for turn in range(3):
            temperature = rng.choice([0.0, 0.7, 1.0, 1.3])
            sampling = SamplingParams(
                max_tokens=rng.randrange(1, 12), temperature=temperature, seed=seed
            )
            request = f"{number}/{turn}"
            running = asyncio.create_task(
                engine.generate(prompt, sampling, request_id=request, session_id=session)
            )
            if rng.random() < 0.2:
                await asyncio.sleep(0.002)
                await engine.abort(request)
            completion = await running
            worst = max(worst, worst_difference(models, prompt, completion, temperature))
            tokens += len(completion.token_ids)
            prompt += completion.token_ids
            prompt += [rng.randrange(VOCAB) for _ in range(rng.randrange(1, 8))]
            if len(prompt) >= CONTEXT:
                break
        if session:
            await engine.release(session)

    async def publisher() -> None:
        for version in list(models)[1:]:
            await asyncio.sleep(0.004)
            mode: PublishMode = rng.choice(["wait", "keep", "abort"])
            await engine.publish(models[version].state_dict(), version, mode=mode)
            assert engine.version == version

    await asyncio.gather(publisher(), *(episode(number) for number in range(6)))
    await engine.close()
    return worst, tokens


@pytest.mark.slow
@settings(deadline=None, derandomize=True, max_examples=6)
@given(seed=st.integers(0, 2**20))
@pytest.mark.parametrize("name", CONFIGS)
def test_logprobs_are_those_of_a_plain_forward_pass(name: str, seed: int) -> None:
    models = {version: make_model(name, version) for version in range(3)}
    worst, tokens = asyncio.run(play(seed, models))
    assert tokens > 0
    assert worst < 1e-4


async def play_new_ones(seed: int, models: dict[int, Any]) -> tuple[float, int]:
    """Episodes that begin after a publish with "keep_kv", beside older ones that share their beginnings."""
    rng = random.Random(seed)
    engine = TransformersEngine(
        models[0], max_batch=4, kv_rows=6, max_context=CONTEXT, prefill_tokens=17, threads=1
    )
    beginnings = [[rng.randrange(VOCAB) for _ in range(20)] for _ in range(2)]
    worst, mixed = 0.0, 0

    def begin() -> list[int]:
        return list(rng.choice(beginnings)[: rng.randrange(5, 20)])

    async def old(name: str) -> None:
        nonlocal mixed
        session = rng.choice([None, name])
        prompt = begin()
        for turn in range(3):
            sampling = SamplingParams(max_tokens=20, seed=seed)
            completion = await engine.generate(
                prompt, sampling, request_id=f"{name}/{turn}", session_id=session
            )
            mixed += len(set(completion.weight_versions)) > 1
            prompt += [*completion.token_ids, *rng.choice(beginnings)[:3]]
        if session:
            await engine.release(session)

    async def new(name: str, session: str | None) -> None:
        nonlocal worst
        prompt = begin()
        for turn in range(2):
            sampling = SamplingParams(max_tokens=rng.randrange(1, 12), seed=seed)
            completion = await engine.generate(
                prompt, sampling, request_id=f"{name}/{turn}", session_id=session
            )
            worst = max(worst, worst_difference(models, prompt, completion, 1.0))
            prompt += [*completion.token_ids, *rng.choice(beginnings)[:3]]
        if session and rng.random() < 0.7:
            await engine.release(session)

    background = [asyncio.create_task(old(f"old{number}")) for number in range(2)]
    for version in (1, 2, 0, 1):
        enough = engine.stats.sampled_tokens + rng.randrange(4, 20)
        while engine.stats.sampled_tokens < enough and not all(t.done() for t in background):
            await asyncio.sleep(0.0005)
        await engine.publish(models[version].state_dict(), version, mode="keep_kv")
        sessions = [None, *(f"new{number}" for number in range(3))]
        for session in sessions[1:]:  # of the round before: of those names, none may be known
            await engine.release(str(session))
        await asyncio.gather(*(new(f"{version}.{s}", s) for s in sessions))
        background.append(asyncio.create_task(old(f"old{len(background)}")))
    await asyncio.gather(*background)
    await engine.close()
    return worst, mixed


@pytest.mark.slow
@settings(deadline=None, derandomize=True, max_examples=4)
@given(seed=st.integers(0, 2**20))
def test_an_episode_that_begins_after_keep_kv_reads_nothing_old(seed: int) -> None:
    models = {version: make_model("qwen3", version) for version in range(3)}
    worst, mixed = asyncio.run(play_new_ones(seed, models))
    assert mixed > 0, "some did read old keys and values"
    assert worst < 1e-4


@pytest.mark.parametrize("name", CONFIGS)
def test_which_models_have_the_leaner_pass(name: str) -> None:
    engine = TransformersEngine(make_model(name, 0), max_context=CONTEXT)
    assert engine.fused is CONFIGS[name][1]
