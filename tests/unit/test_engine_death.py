"""Nobody waits for ever for a worker that dies, whenever they asked."""

import asyncio
import threading
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, Qwen3Config

from agentic_gym.engines.replicas import ReplicaSet
from agentic_gym.engines.transformers import TransformersEngine
from agentic_gym.errors import EngineError
from agentic_gym.types import SamplingParams


def make_engine() -> TransformersEngine:
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=16, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=1, head_dim=8, max_position_embeddings=32,
        initializer_range=0.3,
    )  # fmt: skip
    model = AutoModelForCausalLM.from_config(config)
    return TransformersEngine(model, max_batch=2, max_context=32, threads=1)


@pytest.mark.parametrize("mode", ["wait", "keep", "keep_kv", "abort"])
def test_what_is_asked_during_the_last_step_is_answered(
    monkeypatch: pytest.MonkeyPatch, mode: Any
) -> None:
    engine = make_engine()
    stepping, asked = threading.Event(), threading.Event()

    def step() -> None:
        stepping.set()
        asked.wait(10)
        raise MemoryError("no room")

    monkeypatch.setattr(engine, "_step", step)

    async def main() -> list[Any]:
        params = SamplingParams(4, seed=0)
        first = asyncio.create_task(engine.generate([1], params, request_id="a"))
        while not stepping.is_set():
            await asyncio.sleep(0.001)
        late = [
            asyncio.create_task(engine.generate([1], params, request_id="b")),
            asyncio.create_task(engine.publish({}, 1, mode=mode)),
        ]
        await asyncio.sleep(0.01)
        asked.set()
        async with asyncio.timeout(10):
            return await asyncio.gather(first, *late, return_exceptions=True)

    results = asyncio.run(main())
    assert all(isinstance(result, EngineError) for result in results)
    assert "no room" in str(results[0])


def test_a_request_goes_on_at_the_replica_that_takes_the_place_of_a_dead_one() -> None:
    def broken() -> None:
        raise MemoryError("no room")

    async def main() -> None:
        engine = make_engine()
        replicas = ReplicaSet({0: engine})
        replicas.on_down = lambda number: replicas.add(number, make_engine())
        params = SamplingParams(25, seed=3)
        whole = await replicas.generate([1], params, request_id="a", session_id="s")
        again = asyncio.create_task(replicas.generate([1], params, request_id="a", session_id="s"))
        while engine.stats.sampled_tokens < 30:
            await asyncio.sleep(0.0005)
        engine._step = broken  # type: ignore[method-assign]
        assert (await again).token_ids == whole.token_ids
        assert not engine.alive
        await replicas.close()

    asyncio.run(main())
