import asyncio
from typing import Any

import pytest

from agentic_gym.engines.base import Engine
from agentic_gym.engines.scripted import ScriptedEngine
from agentic_gym.errors import EngineError
from agentic_gym.types import Completion, SamplingParams

STOP = 9


def params(max_tokens: int = 50) -> SamplingParams:
    return SamplingParams(max_tokens=max_tokens, stop_token_ids=(STOP,))


def test_it_replays_its_script() -> None:
    async def main() -> list[Completion]:
        engine = ScriptedEngine([[1, 2, STOP, 3], [4, 5]], version=7)
        assert isinstance(engine, Engine)
        said = [
            await engine.generate([0], params(), request_id="a"),
            await engine.generate([0, 1], params(), request_id="b"),
            await engine.generate([0], params(1), request_id="c"),
        ]
        assert engine.prompts == [(0,), (0, 1), (0,)]
        return said

    first, second, third = asyncio.run(main())
    assert (first.token_ids, first.finish_reason) == ((1, 2, STOP), "stop")
    assert (second.token_ids, second.finish_reason) == ((4, 5), "length")
    assert (third.token_ids, third.finish_reason) == ((4,), "length")
    assert first.weight_versions == (7, 7, 7)
    assert all(-4 < logprob < 0 for logprob in first.logprobs)
    assert second.logprobs[0] == third.logprobs[0], "named by token and version"


@pytest.mark.parametrize("mode", ["wait", "keep", "keep_kv", "abort"])
def test_the_modes_of_a_publish(mode: Any) -> None:
    async def main() -> Completion:
        engine = ScriptedEngine(lambda _prompt, _request: [1] * 20)
        running = asyncio.create_task(engine.generate([0], params(20), request_id="a"))
        for _ in range(5):
            await asyncio.sleep(0)
        await engine.publish({}, 1, mode=mode)
        late = await engine.generate([0], params(1), request_id="b")
        assert late.weight_versions == (1,)
        return await running

    completion = asyncio.run(main())
    assert (completion.finish_reason == "abort") is (mode == "abort")
    assert set(completion.weight_versions) == ({0, 1} if "keep" in mode else {0})


def test_scripted_failures_aborts_and_the_end() -> None:
    async def main() -> None:
        engine = ScriptedEngine([[1] * 30], fail=["bad"])
        with pytest.raises(EngineError, match="scripted"):
            await engine.generate([0], params(), request_id="bad")
        running = asyncio.create_task(engine.generate([0], params(), request_id="a"))
        for _ in range(4):
            await asyncio.sleep(0)
        await engine.abort("a")
        assert (await running).finish_reason == "abort"
        await engine.release("s")
        assert engine.released == ["s"]
        await engine.close()
        with pytest.raises(EngineError, match="closed"):
            await engine.generate([0], params(), request_id="late")

    asyncio.run(main())


def test_a_cancelled_publish_holds_nobody_back() -> None:
    async def main() -> None:
        engine = ScriptedEngine([[1] * 30])
        running = asyncio.create_task(engine.generate([0], params(30), request_id="a"))
        for _ in range(4):
            await asyncio.sleep(0)
        publish = asyncio.create_task(engine.publish({}, 1, mode="wait"))
        for _ in range(4):
            await asyncio.sleep(0)
        publish.cancel()
        await asyncio.gather(publish, return_exceptions=True)
        async with asyncio.timeout(5):
            await engine.generate([0], params(1), request_id="b")
        await running
        assert engine.version == 0

    asyncio.run(main())


def test_given_tokens_are_said_first_and_an_interrupted_request_is_carried_on() -> None:
    async def main() -> None:
        engine = ScriptedEngine(lambda prompt, request: [*prompt, 5, 6, 7])
        forced = SamplingParams(4, forced=(8, 2))
        completion = await engine.generate([0, 1], forced, request_id="a")
        assert completion.token_ids == (8, 2, 5, 6)
        rest = SamplingParams(9, noise_offset=3)
        completion = await engine.generate([0, 1, 0, 1, 5], rest, request_id="b")
        assert completion.token_ids == (6, 7)
        assert engine.prompts[-1] == (0, 1, 0, 1, 5)

    asyncio.run(main())


def test_a_request_that_is_held_back_can_be_aborted_and_the_load_tells_what_runs() -> None:
    async def main() -> None:
        engine = ScriptedEngine([[1] * 30], kv_capacity=99)
        running = asyncio.create_task(engine.generate([0, 0], params(30), request_id="a"))
        for _ in range(4):
            await asyncio.sleep(0)
        publish = asyncio.create_task(engine.publish({}, 1, mode="wait"))
        await asyncio.sleep(0)
        late = asyncio.create_task(engine.generate([0], params(), request_id="b"))
        await asyncio.sleep(0)
        load = engine.load
        assert (load.requests, load.kv_capacity) == (2, 99)
        assert 2 < load.kv_tokens < 10
        await engine.abort("b")
        assert await late == Completion((), (), (), "abort")
        assert not running.done()
        await asyncio.gather(running, publish)
        assert engine.load.kv_tokens == 0
        assert engine.alive
        await engine.close()
        assert not engine.alive

    asyncio.run(main())
