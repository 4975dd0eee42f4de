"""What becomes of requests and sessions when replicas are killed, die, join and close."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from agentic_gym.engines.base import ANY
from agentic_gym.engines.replicas import ReplicaSet
from agentic_gym.engines.scripted import ScriptedEngine
from agentic_gym.errors import EngineError
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


def test_a_killed_replica_parks_what_was_placed_and_gives_away_the_rest() -> None:
    async def main() -> None:
        down: list[int] = []
        replicas, (a, b) = make(0, 0, on_down=down.append)
        replicas.place("p", 0)
        placed, free = start(replicas, "p"), start(replicas, "f")
        await said(b)
        await replicas.kill(1)
        await replicas.kill(1)
        while asked(a) != "pf":
            await asyncio.sleep(0)
        await replicas.kill(0)
        await turns(30)
        assert not placed.done()
        assert not free.done(), "a third may be on its way"
        assert not replicas.alive
        replicas.add(2, scripted(5))
        completion = await free
        assert completion.token_ids == TEXT
        assert set(completion.weight_versions) == {0, 5}
        assert not placed.done()
        replicas.resume("p", 2)
        assert (await placed).token_ids == TEXT
        assert down == [], "who kills knows"

    run(main)


def test_a_replica_that_dies_is_reported_once_and_its_requests_go_on() -> None:
    async def main() -> None:
        down: list[int] = []
        replicas, (a, b) = make(0, 0, on_down=down.append)
        replicas.place("p", 1)
        placed = start(replicas, "p")
        free = [start(replicas, name) for name in "uvwxy"]
        await said(b, 30)
        assert asked(b) == "pwy"
        replicas.migrate("w", 0)
        await turns(5)
        await b.die()
        assert [(await task).token_ids for task in free] == [TEXT] * 5
        assert asked(a) == "uvxwy"
        assert down == [1]
        assert replicas.versions == {0: 0}
        assert not placed.done()
        replicas.migrate("p", 1)  # by somebody who has not heard yet
        await turns(20)
        assert not placed.done()
        replicas.resume("p", 0)
        assert (await placed).token_ids == TEXT
        with pytest.raises(EngineError, match="replica 1 is gone"):
            await replicas.publish({}, 1, replica=1)
        with pytest.raises(EngineError, match="replica 1 is gone"):
            replicas.replica(1)
        replicas.add(1, scripted(3))
        assert replicas.replica(1).version == 3

    run(main)


def test_what_was_sampled_before_it_came_to_the_dead_is_kept() -> None:
    async def main() -> None:
        replicas, (a, b) = make(1, 2)
        replicas.place("s", 0)
        task = start(replicas, "s")
        await said(a)
        replicas.migrate("s", 1)
        await said(b, 20)
        await b.die()
        await turns(10)
        replicas.resume("s", 0)
        assert (await task).token_ids == TEXT
        assert set((await task).weight_versions) == {1}, "and what the dead one sampled is not"
        assert len(a.prompts[-1]) >= 3 + 5

    run(main)


@pytest.mark.parametrize("how", ["loads", "publish", "publish to all", "one replica"])
def test_a_replica_that_dies_idle_is_found(how: str) -> None:
    async def main() -> None:
        down: list[int] = []
        replicas, (_, b) = make(0, 0)
        replicas.on_down = down.append
        one = replicas.replica(1)
        await b.die()
        assert not one.alive
        if how == "loads":
            assert list(replicas.loads()) == [0]
        elif how == "publish":
            with pytest.raises(EngineError, match="told to"):
                await replicas.publish({}, 1, replica=1)
        elif how == "publish to all":
            await replicas.publish({}, 1)
            assert replicas.versions == {0: 1}
        else:
            with pytest.raises(EngineError, match="told to"):
                await one.generate([0], SamplingParams(3), request_id="r")
        assert down == [1]

    run(main)


def test_when_the_last_one_dies_nobody_waits_for_ever() -> None:
    async def main() -> None:
        replicas, (a,) = make(6)
        running, parked = start(replicas, "s"), start(replicas, "t")
        await said(a)
        replicas.park("t")
        await turns(20)
        await a.die()
        for task in (running, parked):
            with pytest.raises(EngineError, match=r"no replica is left: .*told to"):
                await task
        with pytest.raises(EngineError, match="no replica is left"):
            await start(replicas, "u")
        with pytest.raises(EngineError, match="no replica is left"):
            await replicas.publish({}, 1)
        assert replicas.version == 6
        replicas.add(0, scripted())
        assert (await start(replicas, "v")).token_ids == TEXT

    run(main)


def test_whoever_is_told_may_replace_it_at_once() -> None:
    async def main() -> None:
        replicas, (a,) = make(0)
        replicas.on_down = lambda number: replicas.add(number, scripted(4))
        task = start(replicas, "s")
        await said(a)
        await a.die()
        assert set((await task).weight_versions) == {4}
        assert replicas.versions == {0: 4}

    run(main)


def test_a_request_that_fails_alone_fails_alone() -> None:
    async def main() -> None:
        down: list[int] = []
        engine = ScriptedEngine([TEXT], fail=["b"])
        replicas = ReplicaSet({0: engine}, on_down=down.append)
        with pytest.raises(EngineError, match="scripted failure"):
            await start(replicas, "b")
        assert (await start(replicas, "g")).token_ids == TEXT
        assert down == []

    run(main)


def test_an_engine_that_somebody_else_closes_counts_as_dead() -> None:
    async def main() -> None:
        down: list[int] = []
        replicas, (a, b) = make(0, 0, on_down=down.append)
        task = start(replicas, "s")
        await said(a)
        await a.close()
        assert (await task).token_ids == TEXT
        assert down == [0]
        assert len(b.prompts[0]) >= 3 + 5, "closed in order, it gave back what it had"

    run(main)


def test_closing_ends_everything() -> None:
    async def main() -> None:
        down: list[int] = []
        replicas, (a, b) = make(0, 0, on_down=down.append)
        running = start(replicas, "s")
        await said(a)
        replicas.park("t")
        waiting = start(replicas, "t")
        await turns(3)
        await replicas.close()
        await replicas.close()
        assert (await running).finish_reason == "abort"
        assert len((await running).token_ids) >= 5
        assert await waiting == Completion((), (), (), "abort")
        assert not replicas.alive
        assert not b.alive
        assert down == []
        with pytest.raises(EngineError, match="closed"):
            await start(replicas, "u")

    run(main)


@pytest.mark.parametrize("placed", [False, True])
def test_one_that_is_back_with_older_weights_takes_only_what_is_placed_there(placed: bool) -> None:
    async def main() -> None:
        replicas, (a, _) = make(2, 3)
        for name in "uv":
            replicas.park(name)
        waiting = [start(replicas, name) for name in "uv"]
        await replicas.kill(1)
        old = scripted(2)
        replicas.add(1, old)
        replicas.resume("u", 1 if placed else ANY)
        replicas.resume("v")
        await turns(5)
        assert asked(a) == ("v" if placed else "uv"), "it was there all along"
        assert asked(old) == ("u" if placed else "")
        await asyncio.gather(*waiting)

    run(main)


def test_what_was_left_to_us_waits_until_one_that_is_back_has_caught_up() -> None:
    async def main() -> None:
        replicas, (a,) = make(3)
        task = start(replicas, "s")
        await said(a)
        await replicas.kill(0)
        old = scripted(1)
        replicas.add(0, old)
        await turns(20)
        await replicas.publish({}, 2)
        await turns(20)
        assert asked(old) == ""
        await replicas.replica(0).publish({}, 3)  # as a trainer does that compares weights
        assert set((await task).weight_versions) == {3}
        replicas.add(1, scripted(2))
        replicas.place("t", 1)
        assert set((await start(replicas, "t")).weight_versions) == {2}

    run(main)
