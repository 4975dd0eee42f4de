"""Tokens that are given, noise that goes on, and what an engine says of its load."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, Qwen3Config

from agentic_gym.engines.base import EngineLoad
from agentic_gym.engines.transformers import TransformersEngine
from agentic_gym.errors import ConfigError
from agentic_gym.types import Completion, SamplingParams

VOCAB, PROMPT = 31, [3, 1, 4, 1, 5]


def make_model(seed: int = 0) -> Any:
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=VOCAB, hidden_size=16, intermediate_size=24, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=1, head_dim=8, max_position_embeddings=64,
        initializer_range=0.3,
    )  # fmt: skip
    return AutoModelForCausalLM.from_config(config).eval()


MODEL = make_model()


def make_engine(**options: Any) -> TransformersEngine:
    options = {"max_batch": 3, "kv_rows": 4, "max_context": 64, "threads": 1, **options}
    return TransformersEngine(MODEL, **options)


def params(max_tokens: int = 12, **options: Any) -> SamplingParams:
    return SamplingParams(max_tokens, **{"seed": 0, **options})


@pytest.fixture(scope="module")
def engine() -> Iterator[TransformersEngine]:
    served = make_engine()
    yield served
    asyncio.run(served.close())


def ask(
    engine: TransformersEngine, *requests: tuple[list[int], SamplingParams]
) -> list[Completion]:
    async def main() -> list[Completion]:
        return await asyncio.gather(
            *(
                engine.generate(prompt, sampling, request_id="r" if number == 0 else str(number))
                for number, (prompt, sampling) in enumerate(requests)
            )
        )

    return asyncio.run(main())


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0])
def test_given_tokens_come_with_the_logprobs_of_a_plain_forward_pass(
    engine: TransformersEngine, temperature: float
) -> None:
    given = (7, 30, 0, 11)
    sampling = params(6, temperature=temperature, forced=given)
    beside = params(9, temperature=1.0)
    forced, free = ask(engine, (PROMPT, sampling), ([2], beside))
    assert forced.token_ids[:4] == given
    assert len(forced.token_ids) == 6, "max_tokens counts them"
    with torch.no_grad():
        logits = MODEL(torch.tensor([[*PROMPT, *forced.token_ids]])).logits[0]
    logprobs = (logits / (temperature or 1.0)).log_softmax(-1)
    for index, token in enumerate(forced.token_ids):
        expected = logprobs[len(PROMPT) + index - 1, token].item()
        assert forced.logprobs[index] == pytest.approx(expected, abs=1e-4)
    alone = ask(engine, ([5], params()), ([2], beside))[1]
    assert free.token_ids == alone.token_ids, "who is beside samples as ever"


def test_forcing_what_would_be_sampled_changes_nothing(engine: TransformersEngine) -> None:
    [whole] = ask(engine, (PROMPT, params()))
    [forced] = ask(engine, (PROMPT, params(forced=whole.token_ids[:5])))
    assert forced == whole
    [cut] = ask(engine, (PROMPT, params(3, forced=whole.token_ids)))
    assert cut.token_ids == whole.token_ids[:3]
    assert cut.finish_reason == "length"
    [stopped] = ask(engine, (PROMPT, params(forced=(4, 9, 2), stop_token_ids=(9,))))
    assert (stopped.token_ids, stopped.finish_reason) == ((4, 9), "stop")


@pytest.mark.parametrize("count", [1, 5, 11])
def test_noise_goes_on_where_an_interrupted_request_stopped(
    engine: TransformersEngine, count: int
) -> None:
    [whole] = ask(engine, (PROMPT, params()))
    prompt = [*PROMPT, *whole.token_ids[:count]]
    [rest] = ask(engine, (prompt, params(12 - count, noise_offset=count)))
    assert rest.token_ids == whole.token_ids[count:]
    [other] = ask(engine, (prompt, params(12 - count)))
    assert other.token_ids != rest.token_ids or count == 11


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"forced": (VOCAB,)}, "forced part of 'r' has ids outside"),
        ({"forced": (1, -1)}, "forced part"),
        ({"noise_offset": -1}, "noise_offset=-1"),
        ({"noise_offset": len(PROMPT)}, "noise_offset=5"),
    ],
)
def test_what_cannot_be_is_refused(engine: TransformersEngine, options: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ask(engine, (PROMPT, params(**options)))


def test_the_load_counts_requests_and_what_the_running_ones_hold() -> None:
    async def main() -> None:
        engine = make_engine(max_batch=1)
        assert engine.alive
        assert engine.load == EngineLoad(0, 0, 4 * 64)
        running = [
            asyncio.create_task(engine.generate(PROMPT, params(50), request_id=str(i)))
            for i in range(2)
        ]
        while engine.stats.sampled_tokens < 5:
            await asyncio.sleep(0.0005)
        load = engine.load
        assert load.requests == 2
        assert len(PROMPT) + 4 <= load.kv_tokens < len(PROMPT) + 50, "of the one that runs"
        await engine.abort("1")
        await asyncio.gather(*running)
        await engine.generate(PROMPT, params(4), request_id="2", session_id="s")
        assert engine.load == EngineLoad(0, 0, 4 * 64), (
            "what is kept for later turns counts no more"
        )
        await engine.close()
        assert not engine.alive

    asyncio.run(main())
