"""Requests, limits and models that the engine does not take, and what it says."""

import asyncio
from typing import Any

import pytest
from transformers import (
    AutoModelForCausalLM,
    BloomConfig,
    Gemma2Config,
    MistralConfig,
    PretrainedConfig,
    Qwen3Config,
)

from agentic_gym.engines.transformers import TransformersEngine
from agentic_gym.errors import ConfigError
from agentic_gym.types import SamplingParams

VOCAB = 61
SIZES: dict[str, Any] = {
    "vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
    "max_position_embeddings": 128,
}  # fmt: skip


def make_engine(config: PretrainedConfig | None = None, **options: Any) -> TransformersEngine:
    model = AutoModelForCausalLM.from_config(config or Qwen3Config(**SIZES)).eval()
    return TransformersEngine(
        model, **{"max_batch": 4, "max_context": 128, "threads": 1, **options}
    )


@pytest.mark.parametrize(
    ("prompt", "options", "message"),
    [
        ([], {}, "0 tokens"),
        ([1] * 128, {}, "128 tokens"),
        ([VOCAB], {}, "outside the vocabulary"),
        ([-1], {}, "outside the vocabulary"),
        ([1], {"max_tokens": 0}, "max_tokens"),
    ],
)
def test_bad_requests_are_refused(prompt: list[int], options: Any, message: str) -> None:
    sampling = SamplingParams(**{"max_tokens": 8, **options})
    with pytest.raises(ConfigError, match=message):
        asyncio.run(make_engine().generate(prompt, sampling, request_id="r"))


def test_limits_are_checked() -> None:
    for options in ({"max_batch": 0}, {"kv_rows": 1}, {"prefill_tokens": 0}):
        with pytest.raises(ConfigError, match="must be positive"):
            make_engine(**options)
    with pytest.raises(ConfigError, match="128 positions"):
        make_engine(max_context=129)
    with pytest.raises(ConfigError, match="one of"):
        asyncio.run(make_engine().publish({}, 1, mode="now"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (MistralConfig(**SIZES, sliding_window=16), "window of 16"),
        (Gemma2Config(**SIZES, sliding_window=128), "soft-capped"),
        (BloomConfig(vocab_size=VOCAB, hidden_size=32, n_layer=2, n_head=4), "exactly"),
    ],
    ids=["sliding window", "soft cap", "position bias"],
)
def test_models_that_cannot_be_served_exactly_are_refused(
    config: PretrainedConfig, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        make_engine(config)
