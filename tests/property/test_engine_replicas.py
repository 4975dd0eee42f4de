"""Sessions that are parked, resumed and migrated at random sample what they would have sampled in peace."""

import asyncio
import functools
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, Qwen3Config

from agentic_gym.engines.base import ANY, Engine, EngineLoad, PublishMode
from agentic_gym.engines.replicas import ReplicaSet
from agentic_gym.engines.scripted import ScriptedEngine
from agentic_gym.engines.transformers import TransformersEngine
from agentic_gym.errors import EngineError
from agentic_gym.types import Completion, SamplingParams

VOCAB, CONTEXT, TURNS = 61, 96, 3
NAMES = [f"s{number}" for number in range(7)]


@functools.cache
def make_model(seed: int) -> Any:
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=VOCAB, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, head_dim=8, max_position_embeddings=CONTEXT,
        initializer_range=0.3,
    )  # fmt: skip
    return AutoModelForCausalLM.from_config(config).eval()


class Slowed(TransformersEngine):
    """Counts what it was asked for, dies at its next step if it is to, and waits for whoever disturbs it."""

    attempts = 0
    doomed = False
    allowed = 10**9  # steps

    async def generate(
        self, prompt_ids: Sequence[int], sampling: SamplingParams, **names: Any
    ) -> Completion:
        self.attempts += 1
        return await super().generate(prompt_ids, sampling, **names)

    def _step(self) -> None:
        if self.doomed:
            raise MemoryError("no room")
        for _ in range(20):  # not for ever: a busy machine may leave the other thread behind
            if self.stats.steps < self.allowed:
                break
            time.sleep(0.0005)
        super()._step()


def make_engine(version: int = 0) -> Slowed:
    return Slowed(
        make_model(version), max_batch=3, kv_rows=4, max_context=CONTEXT, prefill_tokens=17,
        threads=1, version=version,
    )  # fmt: skip


@dataclass(frozen=True)
class Said:
    """One turn."""

    prompt: list[int]
    sampling: SamplingParams
    completion: Completion


async def converse(engine: Engine, name: str, seed: int) -> list[Said]:
    """The turns of one session; the environment's part and all limits are fixed by name and seed."""
    rng = random.Random(f"{seed}/{name}")
    prompt = [rng.randrange(VOCAB) for _ in range(rng.randrange(1, 15))]
    turns = []
    for turn in range(TURNS):
        sampling = SamplingParams(
            max_tokens=rng.randrange(1, 20),
            temperature=rng.choice([0.0, 0.7, 1.0, 1.3]),
            seed=seed,
            stop_token_ids=(7,),
            forced=tuple(rng.randrange(8, VOCAB) for _ in range(rng.choice([0, 0, 3]))),
        )
        session = name if rng.random() < 0.8 else None
        completion = await engine.generate(
            list(prompt), sampling, request_id=f"{name}/{turn}", session_id=session
        )
        turns.append(Said(list(prompt), sampling, completion))
        prompt += [*completion.token_ids, *(rng.randrange(VOCAB) for _ in range(3))]
        if rng.random() < 0.5:
            await asyncio.sleep(0.002)
    await engine.release(name)
    return turns


async def converse_all(engine: Engine, seed: int) -> dict[str, list[Said]]:
    results = await asyncio.gather(*(converse(engine, name, seed) for name in NAMES))
    return dict(zip(NAMES, results, strict=True))


@dataclass
class Disturber:
    """Parks, resumes, migrates and publishes at random; kills replicas and adds others."""

    rng: random.Random
    weights: Mapping[int, int]  # the model of each version
    deaths: bool
    served: dict[int, Slowed]
    parked: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.replicas = ReplicaSet(self.served, on_down=self.down)

    def down(self, replica: int) -> None:
        del self.served[replica]
        self.parked.update(NAMES)  # those that were placed there; the others a resume does not hurt

    async def play(self, seed: int) -> dict[str, list[Said]]:
        async with asyncio.timeout(60):
            conversing = asyncio.create_task(converse_all(self.replicas, seed))
            while not conversing.done():
                for engine in self.served.values():
                    engine.allowed = engine.stats.steps + self.rng.randrange(1, 5)
                await asyncio.sleep(0.001)
                await self.disturb()
                for name in sorted(self.parked):
                    if self.rng.random() < 0.1:  # nobody waits long
                        self.resume(name, ANY)
            for name in NAMES:
                await self.replicas.release(name)
            return await conversing

    async def disturb(self) -> None:
        name, live, move = self.rng.choice(NAMES), sorted(self.served), self.rng.random()
        sound = [number for number in live if not self.served[number].doomed]
        if move < 0.3:
            self.replicas.park(name)
            self.parked.add(name)
        elif move < 0.55:
            self.resume(name, self.rng.choice([ANY, *live]))
        elif move < 0.8:
            self.replicas.migrate(name, self.rng.choice(live))
            self.parked.discard(name)
        elif move < 0.9 or not self.deaths:
            await self.publish(self.rng.choice(live))
        elif len(sound) == 1:
            new = max(live) + self.rng.randrange(1, 3)
            self.served[new] = make_engine()
            self.replicas.add(new, self.served[new])
        elif move < 0.95:
            killed = self.rng.choice(sound)
            await self.replicas.kill(killed)
            self.down(killed)
        else:
            self.served[self.rng.choice(sound)].doomed = True

    def resume(self, name: str, replica: int) -> None:
        self.replicas.resume(name, replica)
        self.parked.discard(name)

    async def publish(self, replica: int) -> None:
        version = self.rng.choice(sorted(self.weights))
        mode: PublishMode = self.rng.choice(["keep", "keep", "wait"])
        state = make_model(self.weights[version]).state_dict()
        try:
            async with asyncio.timeout(0.01):  # then it is withdrawn
                await self.replicas.publish(state, version, mode=mode, replica=replica)
        except TimeoutError:
            pass
        except EngineError:
            assert self.deaths


@pytest.mark.slow
@settings(deadline=None, derandomize=True, max_examples=6)
@given(seed=st.integers(0, 2**20), count=st.integers(2, 3), deaths=st.booleans())
def test_with_the_same_weights_nobody_notices(seed: int, count: int, deaths: bool) -> None:
    async def main() -> None:
        alone = make_engine()
        expected = await converse_all(alone, seed)
        engines = [make_engine() for _ in range(count)]
        disturber = Disturber(
            random.Random(seed), dict.fromkeys(range(3), 0), deaths, dict(enumerate(engines))
        )
        said = await disturber.play(seed)
        for name in NAMES:
            for got, want in zip(said[name], expected[name], strict=True):
                assert got.completion.token_ids == want.completion.token_ids, (name, got.prompt)
                assert got.completion.finish_reason == want.completion.finish_reason
                assert got.completion.logprobs == pytest.approx(want.completion.logprobs, abs=1e-4)
        if not deaths:
            tokens = sum(
                len(turn.completion.token_ids) for turns in said.values() for turn in turns
            )
            sampled = sum(engine.stats.sampled_tokens for engine in engines)
            assert sampled == tokens, "none is sampled twice"
            assert sum(engine.attempts for engine in engines) > len(NAMES) * TURNS
        for load in disturber.replicas.loads().values():
            assert (load.requests, load.kv_tokens) == (0, 0)
        await disturber.replicas.close()
        await alone.close()

    asyncio.run(main())


@torch.no_grad()
def worst_difference(turn: Said) -> float:
    """Largest difference to the plain forward pass of the version that sampled each token."""
    ids = torch.tensor([[*turn.prompt, *turn.completion.token_ids]])
    worst = 0.0
    for version in set(turn.completion.weight_versions):
        logits = make_model(version)(ids).logits[0] / (turn.sampling.temperature or 1.0)
        logprobs = logits.log_softmax(-1)
        for index, token in enumerate(turn.completion.token_ids):
            if turn.completion.weight_versions[index] == version:
                expected = logprobs[len(turn.prompt) + index - 1, token].item()
                worst = max(worst, abs(turn.completion.logprobs[index] - expected))
    return worst


@pytest.mark.slow
@settings(deadline=None, derandomize=True, max_examples=6)
@given(seed=st.integers(0, 2**20), deaths=st.booleans())
def test_each_token_is_of_the_version_that_it_carries(seed: int, deaths: bool) -> None:
    async def main() -> None:
        engines = {number: make_engine(number) for number in range(3)}
        disturber = Disturber(random.Random(seed), {0: 0, 1: 1, 2: 2}, deaths, engines)
        turns = [turn for said in (await disturber.play(seed)).values() for turn in said]
        versions = [set(turn.completion.weight_versions) for turn in turns]
        assert any(len(several) > 1 for several in versions)
        assert max(map(worst_difference, turns)) < 1e-4
        await disturber.replicas.close()

    asyncio.run(main())


def say(prompt: Sequence[int], request_id: str) -> list[int]:
    rng = random.Random(request_id)
    return [rng.randrange(1000) for _ in range(rng.randrange(1, 40))]


def check_books(replicas: ReplicaSet) -> None:
    for request in replicas._requests.values():
        session = request.session
        assert not session.parked or session.home is None
        if request.replica is not None and not request.moved:
            assert request.replica is session.home or not request.replica.engine.alive
    for known in filter(None, map(replicas._placement.known, NAMES)):
        assert known.held <= set(replicas._placement.replicas.values())
    for replica in replicas._placement.replicas.values():
        own = [r for r in replicas._requests.values() if r.replica is replica]
        assert replica.num_requests == len(own)


def check_end(
    request: str,
    result: Completion | BaseException,
    *,
    aborted: set[str],
    cancelled: set[str],
) -> None:
    if isinstance(result, asyncio.CancelledError):
        assert request in cancelled
        return
    assert isinstance(result, Completion), result
    whole = say([1], request)
    assert list(result.token_ids) == whole[: len(result.token_ids)]
    if result.finish_reason == "abort":
        assert request in aborted


def check_empty(replicas: ReplicaSet) -> None:
    assert replicas.load.requests == 0
    assert set(replicas.loads().values()) == {EngineLoad(0, 0, 1 << 20)}
    placement = replicas._placement
    assert all(placement.known(session) is None for session in NAMES)
    for replica in placement.replicas.values():
        assert not replica.sessions


@settings(deadline=None, derandomize=True, max_examples=100)
@given(seed=st.integers(0, 2**32 - 1))
def test_whatever_happens_every_request_ends_as_asked_and_nothing_is_left(seed: int) -> None:
    rng = random.Random(seed)
    engines: dict[int, ScriptedEngine] = {n: ScriptedEngine(say) for n in range(2)}
    replicas = ReplicaSet(engines)
    running: dict[str, asyncio.Task[Completion]] = {}
    aborted, cancelled = set[str](), set[str]()

    def down(number: int) -> None:
        del engines[number]
        if not engines:
            engines[9] = ScriptedEngine(say)
            replicas.add(9, engines[9])

    replicas.on_down = down

    async def act(number: int) -> None:
        session = rng.choice(NAMES)
        match rng.randrange(12):
            case 0 | 1 | 2 | 3:
                request = f"{session}/{number}"
                sampling = SamplingParams(rng.randrange(1, 40))
                running[request] = asyncio.create_task(
                    replicas.generate([1], sampling, request_id=request, session_id=session)
                )
            case 4:
                replicas.park(session)
            case 5 | 6:
                replicas.resume(session, rng.choice([ANY, *engines]))
            case 7:
                replicas.migrate(session, rng.choice(list(engines)))
            case 8 if running:
                request = rng.choice(list(running))
                aborted.add(request)
                await replicas.abort(request)
            case 9 if running:
                request = rng.choice(list(running))
                if running[request].cancel():
                    cancelled.add(request)
            case 10:
                await rng.choice(list(engines.values())).die()
                replicas.loads()
                if not engines.get(0):
                    engines[0] = ScriptedEngine(say)
                    replicas.add(0, engines[0])
            case _:
                await replicas.release(session)

    async def main() -> None:
        for number in range(80):
            await act(number)
            check_books(replicas)
            for _ in range(rng.randrange(4)):
                await asyncio.sleep(0)
                check_books(replicas)
        for session in NAMES:
            replicas.resume(session)
        async with asyncio.timeout(10):
            results = await asyncio.gather(*running.values(), return_exceptions=True)
        for request, result in zip(running, results, strict=True):
            check_end(request, result, aborted=aborted, cancelled=cancelled)
        for session in NAMES:
            await replicas.release(session)
        check_empty(replicas)

    asyncio.run(main())
