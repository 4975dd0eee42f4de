import asyncio
from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    Qwen3Config,
)

from agentic_gym.engines.base import Engine
from agentic_gym.engines.transformers import TransformersEngine
from agentic_gym.errors import CheckpointError, ConfigError, EngineError
from agentic_gym.types import Completion, SamplingParams

VOCAB = 61
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
PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]


def make_model(seed: int = 0, *, tied: bool = True) -> Any:
    torch.manual_seed(seed)
    config = Qwen3Config(**SIZES, tie_word_embeddings=tied)
    return AutoModelForCausalLM.from_config(config).eval()


MODEL = make_model()  # engines copy it


def make_engine(model: Any = MODEL, **options: Any) -> TransformersEngine:
    options = {"max_batch": 4, "max_context": 128, "threads": 1, **options}
    return TransformersEngine(model, **options)


def params(max_tokens: int = 8, **options: Any) -> SamplingParams:
    return SamplingParams(max_tokens=max_tokens, **{"seed": 0, **options})


def run(engine: TransformersEngine, *prompts: list[int], **options: Any) -> list[Completion]:
    async def main() -> list[Completion]:
        try:
            return await asyncio.gather(
                *(
                    engine.generate(prompt, params(**options), request_id=str(number))
                    for number, prompt in enumerate(prompts)
                )
            )
        finally:
            await engine.close()

    return asyncio.run(main())


def test_it_is_an_engine() -> None:
    assert isinstance(make_engine(), Engine)


def test_greedy_is_what_generate_gives() -> None:
    model = make_model()
    [completion] = run(make_engine(model), PROMPT, max_tokens=12, temperature=0.0)
    expected = model.generate(
        torch.tensor([PROMPT]), max_new_tokens=12, do_sample=False, pad_token_id=0
    )
    assert list(completion.token_ids) == expected[0, len(PROMPT) :].tolist()
    assert completion.finish_reason == "length"
    assert completion.weight_versions == (0,) * 12


def test_a_seed_fixes_the_sample_whatever_is_batched_beside_it() -> None:
    [alone] = run(make_engine(), PROMPT, max_tokens=20)
    others = [[number] * (number + 1) for number in range(5)]
    first, *_ = run(make_engine(), PROMPT, *others, max_tokens=20)
    assert first.token_ids == alone.token_ids
    [another] = run(make_engine(), PROMPT, max_tokens=20, seed=1)
    assert another.token_ids != alone.token_ids
    unseeded = {run(make_engine(), PROMPT, seed=None)[0].token_ids for _ in range(3)}
    assert len(unseeded) > 1


def test_a_stop_token_ends_the_completion_and_is_in_it() -> None:
    [whole] = run(make_engine(), PROMPT, max_tokens=20)
    stop = whole.token_ids[4]
    [cut] = run(make_engine(), PROMPT, max_tokens=20, stop_token_ids=(stop,))
    assert cut.token_ids == whole.token_ids[: whole.token_ids.index(stop) + 1]
    assert cut.finish_reason == "stop"


def test_the_context_limit_ends_a_completion() -> None:
    [completion] = run(make_engine(max_context=12), PROMPT, max_tokens=99)
    assert len(completion.token_ids) == 12 - len(PROMPT)
    assert completion.finish_reason == "length"


def test_the_next_turn_computes_only_what_is_new() -> None:
    async def main() -> TransformersEngine:
        engine = make_engine()
        first = await engine.generate(PROMPT, params(5), request_id="1", session_id="s")
        prompt = [*PROMPT, *first.token_ids, 7, 7]
        await engine.generate(prompt, params(5), request_id="2", session_id="s")
        await engine.close()
        return engine

    stats = asyncio.run(main()).stats
    assert stats.cached_tokens == len(PROMPT) + 4  # the fifth token was sampled, never read
    assert stats.prefill_tokens == len(PROMPT) + 3


def test_a_prompt_that_another_row_holds_is_copied() -> None:
    async def main() -> TransformersEngine:
        engine = make_engine()
        for number in range(3):
            await engine.generate(PROMPT, params(2), request_id="r", session_id=str(number))
        await engine.close()
        return engine

    assert asyncio.run(main()).stats.prefill_tokens == len(PROMPT) + 2


def test_abort_returns_what_was_sampled() -> None:
    async def main() -> tuple[Completion, Completion]:
        engine = make_engine(max_batch=1, max_context=128)
        whole = await engine.generate(PROMPT, params(110), request_id="a")
        running = asyncio.create_task(engine.generate(PROMPT, params(110), request_id="a"))
        waiting = asyncio.create_task(engine.generate(PROMPT, params(5), request_id="b"))
        while engine.stats.sampled_tokens < 110 + 5:
            await asyncio.sleep(0.001)
        await engine.abort("b")
        await engine.abort("a")
        await engine.abort("unknown")
        cut, empty = await running, await waiting
        await engine.close()
        assert empty == Completion((), (), (), "abort")
        return whole, cut

    whole, cut = asyncio.run(main())
    assert cut.finish_reason == "abort"
    assert 5 <= len(cut.token_ids) < 110
    assert cut.token_ids == whole.token_ids[: len(cut.token_ids)]


def test_a_cancelled_request_leaves_the_batch() -> None:
    async def main() -> None:
        engine = make_engine(max_batch=1)
        task = asyncio.create_task(engine.generate(PROMPT, params(110), request_id="a"))
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        completion = await engine.generate(PROMPT, params(3), request_id="a")
        assert len(completion.token_ids) == 3
        assert engine.stats.sampled_tokens < 110
        await engine.close()

    asyncio.run(main())


@pytest.mark.parametrize("mode", ["wait", "keep", "abort"])
def test_what_a_publish_does_to_a_running_request(mode: Any) -> None:
    async def main() -> tuple[Completion, Completion]:
        engine = make_engine(max_context=128)
        running = asyncio.create_task(engine.generate(PROMPT, params(100), request_id="a"))
        while engine.stats.sampled_tokens < 10:
            await asyncio.sleep(0.001)
        with pytest.raises(ConfigError, match="unique"):
            await engine.generate(PROMPT, params(), request_id="a")
        publish = asyncio.create_task(
            engine.publish(make_model(1).state_dict(), version=3, mode=mode)
        )
        await asyncio.sleep(0)
        late = await engine.generate(PROMPT, params(4), request_id="b")
        await publish
        assert engine.version == 3
        completion = await running
        await engine.close()
        return completion, late

    completion, late = asyncio.run(main())
    assert late.weight_versions == (3,) * 4
    versions = completion.weight_versions
    if mode == "wait":
        assert versions == (0,) * 100
    elif mode == "keep":
        assert set(versions) == {0, 3}
        assert list(versions) == sorted(versions)
        assert len(versions) == 100
    else:
        assert completion.finish_reason == "abort"
        assert set(versions) == {0}
        assert 10 <= len(versions) < 100


def test_a_cancelled_publish_is_withdrawn_and_the_engine_goes_on() -> None:
    async def main() -> None:
        engine = make_engine(max_context=128)
        running = asyncio.create_task(engine.generate(PROMPT, params(110), request_id="a"))
        while engine.stats.sampled_tokens < 5:
            await asyncio.sleep(0.001)
        weights = make_model(1).state_dict()
        one, two = (asyncio.create_task(engine.publish(weights, version=v)) for v in (1, 2))
        await asyncio.sleep(0)  # both are told
        one.cancel()
        with pytest.raises(asyncio.CancelledError):
            await one
        two.cancel()
        with pytest.raises(asyncio.CancelledError):
            await two
        late = await engine.generate(PROMPT, params(4), request_id="b")
        assert not running.done()  # it was not held back until "a" ended
        assert late.weight_versions == (0,) * 4
        assert set((await running).weight_versions) == {0}
        assert engine.version == 0
        await engine.publish(weights, version=3)
        assert engine.version == 3
        await engine.close()

    asyncio.run(main())


def test_training_goes_on_without_disturbing_the_engine() -> None:
    model = make_model()
    engine = make_engine(model)
    [before] = run(make_engine(make_model()), PROMPT)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    assert run(engine, PROMPT) == [before]


def publish(engine: TransformersEngine, weights: dict[str, torch.Tensor]) -> Completion:
    async def main() -> Completion:
        try:
            await engine.publish(weights, version=1)
            return await engine.generate(PROMPT, params(), request_id="0")
        finally:
            await engine.close()

    return asyncio.run(main())


def test_tied_weights_may_be_given_once_or_twice_but_must_agree() -> None:
    other = make_model(1)
    [expected] = run(make_engine(other), PROMPT)
    both = other.state_dict()
    once = {name: tensor for name, tensor in both.items() if name != "lm_head.weight"}
    head_only = {name: t for name, t in both.items() if name != "model.embed_tokens.weight"}
    for weights in (both, once, head_only):
        assert publish(make_engine(), weights).token_ids == expected.token_ids
    with pytest.raises(EngineError, match="tied"):
        publish(make_engine(), {**both, "lm_head.weight": both["lm_head.weight"] + 1})


def test_weights_that_do_not_fit_are_refused_whole() -> None:
    weights = make_model(1).state_dict()
    norm = weights.pop("model.norm.weight")
    with pytest.raises(EngineError, match=r"missing \['model.norm.weight'\]"):
        publish(make_engine(), weights)
    with pytest.raises(EngineError, match=r"unknown \['v_head.weight'\]"):
        publish(make_engine(), {**weights, "model.norm.weight": norm, "v_head.weight": norm})
    with pytest.raises(EngineError, match="shape"):
        publish(make_engine(), {**weights, "model.norm.weight": norm[:-1]})

    async def main() -> Completion:
        engine = make_engine()
        with pytest.raises(EngineError):
            await engine.publish(weights, version=1)
        assert engine.version == 0
        completion = await engine.generate(PROMPT, params(), request_id="0")
        await engine.close()
        return completion

    assert [asyncio.run(main())] == run(make_engine(), PROMPT)


def test_a_logit_that_is_not_finite_fails_its_request_only() -> None:
    model = make_model(tied=False)
    engine = make_engine(model, max_batch=2)
    poisoned = model.state_dict()
    poisoned["model.embed_tokens.weight"][VOCAB - 1] = float("nan")

    async def main() -> None:
        await engine.publish(poisoned, version=1)
        good, bad = await asyncio.gather(
            engine.generate(PROMPT, params(4, temperature=0.0), request_id="good"),
            engine.generate([*PROMPT, VOCAB - 1], params(4), request_id="bad"),
            return_exceptions=True,
        )
        assert isinstance(bad, EngineError)
        assert "not finite" in str(bad)
        assert isinstance(good, Completion)
        for number in range(4):  # every row, also the one that held NaN
            again = await engine.generate(
                PROMPT, params(4, temperature=0.0), request_id="r", session_id=str(number)
            )
            assert again.token_ids == good.token_ids
        await engine.close()

    asyncio.run(main())


def test_an_exception_in_a_step_fails_its_requests_and_the_engine_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = make_engine()
    forward = engine._model.forward
    calls = 0

    def once_broken(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise RuntimeError("out of memory")
        return forward(*args)

    monkeypatch.setattr(engine._model, "forward", once_broken)

    async def main() -> None:
        with pytest.raises(EngineError, match="out of memory"):
            await engine.generate(PROMPT, params(), request_id="a", session_id="s")
        assert len((await engine.generate(PROMPT, params(), request_id="a")).token_ids) == 8
        await engine.close()

    asyncio.run(main())


def test_a_dead_worker_fails_all_who_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = make_engine(max_batch=1)
    monkeypatch.setattr(engine._batcher, "advance", lambda _: 1 / 0)
    monkeypatch.setattr(engine, "_fail", lambda *_: 1 / 0)

    async def main() -> None:
        results = await asyncio.gather(
            *(engine.generate(PROMPT, params(), request_id=str(i)) for i in range(3)),
            engine.publish({}, 1),
            return_exceptions=True,
        )
        assert all(isinstance(result, EngineError) for result in results)
        with pytest.raises(EngineError, match="died"):
            await engine.generate(PROMPT, params(), request_id="late")
        await engine.close()

    asyncio.run(main())


def test_close_ends_what_runs_and_is_idempotent() -> None:
    async def main() -> None:
        engine = make_engine(max_batch=1)
        tasks = [
            asyncio.create_task(engine.generate(PROMPT, params(110), request_id=str(i)))
            for i in range(2)
        ]
        while engine.stats.sampled_tokens < 3:
            await asyncio.sleep(0.001)
        await engine.close()
        await engine.close()
        running, waiting = await asyncio.gather(*tasks)
        assert running.finish_reason == waiting.finish_reason == "abort"
        assert len(running.token_ids) >= 3
        with pytest.raises(EngineError, match="closed"):
            await engine.generate(PROMPT, params(), request_id="late")

    asyncio.run(main())


def test_a_checkpoint_is_served(tmp_path: Any) -> None:
    model = make_model(5)
    model.save_pretrained(tmp_path)
    engine = TransformersEngine.from_pretrained(str(tmp_path), max_context=64, threads=1)
    assert run(engine, PROMPT) == run(make_engine(model), PROMPT)
    with pytest.raises(CheckpointError, match="no causal LM"):
        TransformersEngine.from_pretrained(str(tmp_path / "nowhere"))
