"""Several engines as one: who is served where, and what is carried on."""

import asyncio
import dataclasses
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from agentic_gym.engines.base import ANY, Engine, EngineLoad
from agentic_gym.engines.replicas import ReplicaSet
from agentic_gym.engines.scripted import ScriptedEngine
from agentic_gym.errors import ConfigError
from agentic_gym.trainers.schedules import base
from agentic_gym.types import Completion, SamplingParams

TEXT = tuple(range(100, 140))


def scripted(version: int = 0) -> ScriptedEngine:
    return ScriptedEngine(lambda prompt, request: TEXT, version=version)


def make(*versions: int, **options: Any) -> tuple[ReplicaSet, list[ScriptedEngine]]:
    engines = [scripted(version) for version in versions or (0, 0)]
    return ReplicaSet(dict(enumerate(engines)), **options), engines


def start(
    replicas: ReplicaSet, session: str, request: str = "", **options: Any
) -> "asyncio.Task[Completion]":
    """A request whose prompt has three tokens, of which the first tells its name."""
    name = request or session
    sampling = SamplingParams(**{"max_tokens": 40, **options})
    return asyncio.create_task(
        replicas.generate([ord(name), 0, 0], sampling, request_id=name, session_id=session)
    )


def asked(engine: ScriptedEngine) -> str:
    """Names of the requests that an engine was asked for."""
    return "".join(chr(prompt[0]) for prompt in engine.prompts)


async def said(engine: ScriptedEngine, count: int = 5) -> None:
    """Until an engine has said so many tokens of a request that runs there."""
    async with asyncio.timeout(5):
        while engine.load.kv_tokens < 3 + count:
            await asyncio.sleep(0)


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(main(), 10))


def test_it_is_an_engine() -> None:
    replicas, _ = make(3, 5)
    assert isinstance(replicas, Engine)
    assert isinstance(replicas.replica(0), Engine)
    assert replicas.versions == {0: 3, 1: 5}
    assert replicas.version == 5
    assert replicas.alive
    assert base.ANY == ANY


def test_what_is_left_to_it_goes_to_the_fewest_requests_and_stays() -> None:
    async def main() -> None:
        replicas, (a, b) = make(0, 0)
        await asyncio.gather(*(start(replicas, name) for name in "uvwx"))
        assert (asked(a), asked(b)) == ("uw", "vx")
        await start(replicas, "x", "y")
        assert asked(b) == "vxy", "it stays, although the other has as little to do"
        await replicas.generate([ord("z"), 0, 0], SamplingParams(2), request_id="alone")
        assert asked(a) == "uwz"

    run(main)


def test_a_migrated_request_is_one_completion_of_several_versions() -> None:
    async def main() -> None:
        replicas, (a, b) = make(0, 7)
        replicas.place("s", 0)
        task = start(replicas, "s")
        await said(a)
        replicas.migrate("s", 1)
        replicas.migrate("s", 0)
        replicas.migrate("s", 1)  # before it has begun there
        completion = await task
        assert completion.token_ids == TEXT
        assert completion.finish_reason == "length"
        versions = completion.weight_versions
        done = versions.index(7)
        assert done >= 5
        assert set(versions[:done]) == {0}
        assert set(versions[done:]) == {7}
        assert b.prompts == [(ord("s"), 0, 0, *TEXT[:done])], "from what was sampled"
        assert a.released == ["s"], "its keys and values there are of no more use"
        await replicas.release("s")
        assert b.released == ["s"]

    run(main)


def test_a_parked_session_waits_with_all_its_requests() -> None:
    async def main() -> None:
        replicas, (a, b) = make(0, 0)
        replicas.place("s", 0)
        tasks = [start(replicas, "s")]
        await said(a)
        replicas.park("s")
        tasks += [start(replicas, "s", name) for name in "tuv"]
        await turns(60)
        assert a.load.requests == b.load.requests == 0
        assert not any(task.done() for task in tasks)
        assert asked(a) == "s"
        replicas.resume("s", 1)
        assert [(await task).token_ids for task in tasks] == [TEXT] * 4
        assert asked(b) == "stuv"
        replicas.park("n")
        new = start(replicas, "n")
        await turns(20)
        assert not new.done()
        replicas.resume("n")
        assert (await new).token_ids == TEXT

    run(main)


def test_a_resumed_session_goes_where_its_keys_and_values_are_or_where_fewer_run() -> None:
    async def main() -> None:
        replicas, (a, b) = make(0, 0)
        await start(replicas, "u")
        await start(replicas, "v")
        assert (asked(a), asked(b)) == ("u", "v")
        await start(replicas, "x", "w")
        assert asked(a) == "uw"
        replicas.place("y", 1)
        replicas.place("z", 1)
        replicas.park("v")
        replicas.resume("v")
        await start(replicas, "v", "1")
        assert asked(b) == "v1"
        replicas.park("v")
        busy = start(replicas, "y")
        await turns(3)
        replicas.resume("v")
        await start(replicas, "v", "2")
        assert asked(a) == "uw2"
        await busy

    run(main)


def test_to_leave_a_running_session_to_the_set_changes_nothing_yet() -> None:
    async def main() -> None:
        replicas, (a, b) = make(0, 0)
        replicas.place("s", 1)
        task = start(replicas, "s")
        await said(b)
        replicas.place("s")
        assert (await task).token_ids == TEXT
        assert (asked(a), asked(b)) == ("", "s")
        await replicas.kill(1)
        await start(replicas, "s", "t")
        assert asked(a) == "t", "it was not parked: its place was no longer the caller's"

    run(main)


def test_an_interrupt_that_comes_late_hits_nobody_else() -> None:
    class Slow(ScriptedEngine):
        async def abort(self, request_id: str) -> None:
            await turns(20)
            await super().abort(request_id)

    async def main() -> None:
        engine = Slow(lambda prompt, request: TEXT)
        replicas = ReplicaSet({0: engine})
        task = start(replicas, "s", max_tokens=8)
        await said(engine)
        replicas.park("s")
        assert (await task).token_ids == TEXT[:8], "it had ended by then"
        replicas.resume("s")
        assert (await start(replicas, "s")).token_ids == TEXT

    run(main)


def test_the_caller_can_abort_what_runs_and_what_waits() -> None:
    async def main() -> None:
        replicas, (a, _) = make(0, 0)
        replicas.place("s", 0)
        task = start(replicas, "s")
        await said(a)
        await replicas.abort("s")
        completion = await task
        assert completion.finish_reason == "abort"
        assert completion.token_ids == TEXT[: len(completion.token_ids)]
        assert 5 <= len(completion.token_ids) < 40
        task = start(replicas, "s")
        await said(a)
        replicas.park("s")
        never = start(replicas, "s", "t")
        await turns(20)
        for name in ("s", "t", "unknown"):
            await replicas.abort(name)
        assert (await task).finish_reason == "abort"
        assert len((await task).token_ids) >= 5, "what it had is kept"
        assert await never == Completion((), (), (), "abort")
        replicas.resume("s", 0)
        task = start(replicas, "s")
        await said(a)
        replicas.migrate("s", 1)
        await replicas.abort("s")
        assert (await task).finish_reason == "abort", "not carried on, although it was moved too"

    run(main)


def test_publishing_to_one_and_to_all_and_an_abort_that_is_not_ours() -> None:
    async def main() -> None:
        replicas, (a, b) = make(0, 0)
        replicas.place("s", 0)
        task = start(replicas, "s")
        await said(a)
        await replicas.publish({}, 4, mode="abort", replica=0)
        assert (await task).finish_reason == "abort"
        assert replicas.versions == {0: 4, 1: 0}
        await replicas.publish({}, 6)
        assert (a.version, b.version) == (6, 6)

    run(main)


def test_forced_tokens_and_the_noise_go_on_too() -> None:
    seen: list[SamplingParams] = []

    class Watching(ScriptedEngine):
        async def generate(
            self, prompt_ids: Sequence[int], sampling: SamplingParams, **names: Any
        ) -> Completion:
            seen.append(sampling)
            return await super().generate(prompt_ids, sampling, **names)

    async def main() -> None:
        engines = [Watching(lambda prompt, request: TEXT) for _ in range(2)]
        replicas = ReplicaSet(dict(enumerate(engines)))
        replicas.place("s", 0)
        task = start(replicas, "s", forced=tuple(range(20)), max_tokens=30, stop_token_ids=(9,))
        await said(engines[0])
        replicas.migrate("s", 1)
        assert (await task).token_ids == tuple(range(10))
        first, second = seen
        done = second.noise_offset
        assert 5 <= done < 10
        assert first.seed is not None
        assert second == dataclasses.replace(
            first, max_tokens=30 - done, forced=tuple(range(done, 20)), noise_offset=done
        )

    run(main)


def test_a_cancelled_request_leaves_nothing_behind() -> None:
    async def main() -> None:
        replicas, (a, b) = make(0, 0)
        running, moving = start(replicas, "s"), start(replicas, "u")
        replicas.park("t")
        waiting = start(replicas, "t")
        await said(a)
        await said(b)
        replicas.migrate("u", 0)
        tasks = [running, waiting, moving]
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(result) for result in results] == [asyncio.CancelledError] * 3
        assert a.load.requests == b.load.requests == replicas.load.requests == 0
        assert (await start(replicas, "s")).token_ids == TEXT, "the id is free again"

    run(main)


def test_a_released_session_is_forgotten_once_its_last_request_has_ended() -> None:
    async def main() -> None:
        replicas, (a, b) = make(0, 0)
        replicas.place("s", 1)
        task = start(replicas, "s")
        await said(b)
        await replicas.release("s")
        assert b.released == []
        replicas.park("t")
        await replicas.release("t")
        await replicas.release("unknown")
        await task
        assert b.released == ["s"]
        await start(replicas, "s", "1")
        await start(replicas, "t")
        assert asked(a) == "1", "its place is forgotten"
        assert asked(b) == "st", "and so is that it was parked"

    run(main)


def test_a_session_that_is_placed_again_while_it_ends_is_known_afterwards() -> None:
    async def main() -> None:
        replicas, (a, b) = make(0, 0)
        replicas.place("s", 1)
        task = start(replicas, "s")
        await said(b)
        await replicas.release("s")
        replicas.place("s", 1)
        await task
        await start(replicas, "s", "t")
        assert (asked(a), asked(b)) == ("", "st")

    run(main)


def test_loads_count_what_runs_and_conversations_between_two_turns() -> None:
    async def main() -> None:
        replicas, (a, b) = make(0, 0)
        for name in ("i", "p"):
            replicas.place(name, 0)
            await start(replicas, name, max_tokens=5)
        replicas.park("p")
        replicas.place("r", 1)
        task = start(replicas, "r")
        await said(b)
        loads = replicas.loads()
        assert loads[0] == EngineLoad(0, 3 + 5, 1 << 20)
        assert loads[1].requests == 1
        assert loads[1].kv_tokens == b.load.kv_tokens
        waiting = start(replicas, "p", "w")
        await turns(3)
        total = replicas.load
        assert total.requests == 2
        assert total.kv_tokens >= 2 * (3 + 5)
        assert total.kv_capacity == 2 << 20
        replicas.resume("p", 0)
        await asyncio.gather(task, waiting)
        assert a.load.requests == 0

    run(main)


def test_misuse_is_refused() -> None:
    for engines in ({}, {-1: scripted()}):
        with pytest.raises(ConfigError, match="engines with numbers from 0"):
            ReplicaSet(engines)

    async def main() -> None:
        replicas, _ = make(0, 0)
        for wrong in (replicas.place, replicas.resume, replicas.migrate):
            with pytest.raises(ConfigError, match=r"no replica 2; there are \[0, 1\]"):
                wrong("s", 2)
        with pytest.raises(ConfigError, match="no replica 2"):
            await replicas.kill(2)
        with pytest.raises(ConfigError, match="no replica 2"):
            await replicas.publish({}, 1, replica=2)
        with pytest.raises(ConfigError, match="no replica 2"):
            replicas.replica(2)
        with pytest.raises(ConfigError, match=r"replica 1 cannot be added.*\[0, 1\]"):
            replicas.add(1, scripted())
        task = start(replicas, "s")
        await turns(2)
        with pytest.raises(ConfigError, match="unique"):
            await start(replicas, "s")
        assert (await task).token_ids == TEXT

    run(main)
