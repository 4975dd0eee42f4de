"""Publish mode "keep_kv": old keys and values stay with their owners, and with nobody else."""

import asyncio
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, Qwen3Config

from agentic_gym.engines.base import PublishMode
from agentic_gym.engines.batching import EngineStats
from agentic_gym.engines.transformers import TransformersEngine
from agentic_gym.types import Completion, SamplingParams

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]


def make_model(seed: int) -> Any:
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=31, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, head_dim=8, max_position_embeddings=128,
        initializer_range=0.3,
    )  # fmt: skip
    return AutoModelForCausalLM.from_config(config).eval()


OLD, NEW = make_model(0), make_model(1)


def make_engine() -> TransformersEngine:
    return TransformersEngine(OLD, max_batch=2, max_context=128, threads=1)


def params(max_tokens: int = 60) -> SamplingParams:
    return SamplingParams(max_tokens, seed=0)


async def interrupted(
    engine: TransformersEngine, weights: dict[str, Any], mode: PublishMode | None
) -> Completion:
    """A completion during which weights are published (or not)."""
    running = asyncio.create_task(engine.generate(PROMPT, params(), request_id="a", session_id="s"))
    while engine.stats.sampled_tokens < 10:
        await asyncio.sleep(0.0005)
    if mode is not None:
        await engine.publish(weights, version=1, mode=mode)
    return await running


def play(weights: dict[str, Any], mode: PublishMode | None) -> tuple[Completion, EngineStats]:
    async def main() -> tuple[Completion, EngineStats]:
        engine = make_engine()
        completion = await interrupted(engine, weights, mode)
        await engine.close()
        return completion, engine.stats

    return asyncio.run(main())


@torch.no_grad()
def exact(model: Any, ids: list[int]) -> torch.Tensor:
    """Log-probabilities of each token after the first, by a plain forward pass."""
    logprobs = model(torch.tensor([ids])).logits[0, :-1].log_softmax(-1)
    read: torch.Tensor = logprobs.gather(1, torch.tensor(ids[1:])[:, None])[:, 0]
    return read


@torch.no_grad()
def mixed(ids: list[int], count: int) -> torch.Tensor:
    """Those of the tokens after ``count``: up to there the old model has read, from there the new one."""
    held = OLD(torch.tensor([ids[:count]]), use_cache=True).cache
    logits = NEW(torch.tensor([ids[count:]]), cache=held).logits[0, :-1]
    logprobs = logits.log_softmax(-1)
    read: torch.Tensor = logprobs.gather(1, torch.tensor(ids[count + 1 :])[:, None])[:, 0]
    return read


def test_with_the_same_weights_it_is_as_if_nothing_was_published() -> None:
    undisturbed, _ = play({}, None)
    completion, stats = play(OLD.state_dict(), "keep_kv")
    assert set(completion.weight_versions) == {0, 1}
    assert completion.token_ids == undisturbed.token_ids
    assert completion.logprobs == undisturbed.logprobs
    assert stats.prefill_tokens == len(PROMPT), "nothing is read again"


def test_the_logprobs_are_those_of_the_mixture_and_of_no_version() -> None:
    completion, _ = play(NEW.state_dict(), "keep_kv")
    ids = [*PROMPT, *completion.token_ids]
    first = len(PROMPT) + completion.weight_versions.index(1)
    reported = torch.tensor(completion.logprobs)[first - len(PROMPT) :]
    assert (reported - mixed(ids, first - 1)).abs().max() < 1e-4
    assert (reported - exact(NEW, ids)[first - 1 :]).abs().max() > 0.01
    kept, _ = play(NEW.state_dict(), "keep")
    ids = [*PROMPT, *kept.token_ids]
    first = len(PROMPT) + kept.weight_versions.index(1)
    reported = torch.tensor(kept.logprobs)[first - len(PROMPT) :]
    assert (reported - exact(NEW, ids)[first - 1 :]).abs().max() < 1e-4, "unlike this mode"


@pytest.mark.parametrize("released", [False, True])
def test_what_is_held_between_turns_stays_until_the_session_is_released(released: bool) -> None:
    async def main() -> tuple[list[int], Completion]:
        engine = make_engine()
        first = await engine.generate(PROMPT, params(12), request_id="1", session_id="s")
        await engine.publish(NEW.state_dict(), version=1, mode="keep_kv")
        prompt = [*PROMPT, *first.token_ids, 7, 7]
        if released:
            await engine.release("s")
        second = await engine.generate(prompt, params(12), request_id="2", session_id="s")
        await engine.close()
        return prompt, second

    prompt, completion = asyncio.run(main())
    ids = [*prompt, *completion.token_ids]
    reported, last = torch.tensor(completion.logprobs), len(prompt) - 1
    of_mixture = mixed(ids, len(PROMPT) + 11)[-12:]  # the twelfth token was sampled, never read
    of_version = exact(NEW, ids)[last:]
    assert (of_mixture - of_version).abs().max() > 0.01
    assert (reported - (of_version if released else of_mixture)).abs().max() < 1e-4


def test_another_session_never_reads_what_is_old_and_copies_what_is_new() -> None:
    async def main() -> list[Completion]:
        engine = make_engine()
        await engine.generate(PROMPT, params(4), request_id="1", session_id="s")
        await engine.generate(PROMPT[:5], params(4), request_id="2")  # a row that nobody owns
        await engine.publish(NEW.state_dict(), version=1, mode="keep_kv")
        before = engine.stats.cached_tokens
        completions = []
        for number in range(3):
            completion = await engine.generate(
                PROMPT, params(8), request_id=str(number), session_id=str(number)
            )
            completions.append(completion)
            copied = engine.stats.cached_tokens - before
            assert copied == number * (len(PROMPT) - 1), "from the second on, from a new row"
        await engine.close()
        return completions

    for completion in asyncio.run(main()):
        ids = [*PROMPT, *completion.token_ids]
        expected = exact(NEW, ids)[len(PROMPT) - 1 :]
        assert (torch.tensor(completion.logprobs) - expected).abs().max() < 1e-4


def test_a_publish_in_another_mode_makes_everything_exact_again() -> None:
    async def main() -> tuple[list[int], Completion]:
        engine = make_engine()
        first = await interrupted(engine, NEW.state_dict(), "keep_kv")
        await engine.publish(NEW.state_dict(), version=2, mode="wait")
        prompt = [*PROMPT, *first.token_ids]
        second = await engine.generate(prompt, params(12), request_id="2", session_id="s")
        await engine.close()
        return prompt, second

    prompt, completion = asyncio.run(main())
    expected = exact(NEW, [*prompt, *completion.token_ids])[len(prompt) - 1 :]
    assert (torch.tensor(completion.logprobs) - expected).abs().max() < 1e-4
