"""Publishing weights and proving that the engine serves them, without a model."""

import asyncio
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from agentic_gym.engines.base import PublishMode
from agentic_gym.engines.replicas import ReplicaSet
from agentic_gym.engines.scripted import ScriptedEngine
from agentic_gym.errors import ConfigError, EngineError, EngineMismatch
from agentic_gym.trainers.publisher import FIRST_SAMPLES, References, WeightPublisher
from agentic_gym.types import Completion, SamplingParams

SAMPLES = [([1, 2, 3], [4, 5, 6, 7, 8]), ([], [1]), ([9], []), ([4], [2]), ([5], [6])]


class Moving:
    """A policy that scores as the scripted engine does for the version that it has now."""

    def __init__(self, version: int) -> None:
        self.version = version

    def weights(self) -> Mapping[str, Any]:
        return {}

    def logprobs(self, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> list[float]:
        engine = ScriptedEngine([[0]], version=self.version)
        sampling = SamplingParams(len(token_ids), forced=tuple(token_ids))
        return list(asyncio.run(engine.generate(prompt_ids, sampling, request_id="r")).logprobs)


def publish(engine: Any, references: References, publisher: WeightPublisher | None = None) -> float:
    publisher = publisher or WeightPublisher()
    return asyncio.run(publisher.publish(engine, {}, references.version, references))


def test_references_are_the_first_samples_that_can_be_compared() -> None:
    references = WeightPublisher(tokens=3).references(Moving(2), 2, SAMPLES)
    assert references.version == 2
    assert references.prompts == ((1, 2, 3), (4,))
    assert references.tokens == ((4, 5, 6), (2,))
    assert [len(logprobs) for logprobs in references.logprobs] == [3, 1]
    first = WeightPublisher().references(Moving(0), 0)
    assert (first.prompts, first.tokens) == (((0,),), ((1, 2, 3),))
    assert first == WeightPublisher().references(Moving(0), 0, [([], [1])])
    assert len(FIRST_SAMPLES) == 1
    assert WeightPublisher(sequences=0).references(Moving(0), 0, SAMPLES).prompts == ()


def test_a_replica_that_loads_old_weights_is_compared_with_what_was_scored_then() -> None:
    policy = Moving(1)
    references = WeightPublisher().references(policy, 1, SAMPLES)
    policy.version = 5
    replicas = ReplicaSet({n: ScriptedEngine([[0]], version=n) for n in range(2)})
    assert publish(replicas.replica(0), references) == 0.0
    assert replicas.versions == {0: 1, 1: 1}
    wrong = dataclasses.replace(WeightPublisher().references(policy, 5, SAMPLES), version=1)
    with pytest.raises(
        EngineMismatch, match="after publishing version 1 engine and trainer differ"
    ):
        publish(replicas.replica(1), wrong)
    assert publish(replicas.replica(1), wrong, WeightPublisher(tolerance=9.0)) > 0


def test_a_nan_is_a_mismatch() -> None:
    references = References(1, ((1,),), ((2,),), ((float("nan"),),))
    with pytest.raises(EngineMismatch, match="differ by nan"):
        publish(ScriptedEngine([[0]]), references)


def test_nothing_is_compared_where_nothing_is_asked() -> None:
    engine = ScriptedEngine([[0]])
    assert publish(engine, WeightPublisher(sequences=0).references(Moving(3), 3, SAMPLES)) == 0.0
    assert engine.version == 3
    assert engine.prompts == []


def test_references_of_another_version_are_refused_before_anything_is_loaded() -> None:
    engine = ScriptedEngine([[0]])
    references = WeightPublisher().references(Moving(1), 1)
    with pytest.raises(ConfigError, match="references of version 1"):
        asyncio.run(WeightPublisher().publish(engine, {}, 2, references))
    assert engine.version == 0


class Deaf(ScriptedEngine):
    """Knows no forced tokens."""

    async def generate(
        self, prompt_ids: Sequence[int], sampling: SamplingParams, **names: Any
    ) -> Completion:
        return await super().generate(prompt_ids, dataclasses.replace(sampling, forced=()), **names)


class Stubborn(ScriptedEngine):
    """Keeps its weights."""

    async def publish(
        self, weights: Mapping[str, Any], version: int, *, mode: PublishMode = "wait"
    ) -> None:
        pass


class Ending(ScriptedEngine):
    """Is closed while it is asked."""

    async def generate(
        self, prompt_ids: Sequence[int], sampling: SamplingParams, **names: Any
    ) -> Completion:
        asking = asyncio.create_task(super().generate(prompt_ids, sampling, **names))
        await asyncio.sleep(0)
        await self.close()
        return await asking


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        (Deaf([[3, 3, 3]]), "does not know forced tokens"),
        (Stubborn([[0]], version=4), r"sampled from \[4\]"),
    ],
)
def test_an_engine_that_does_something_else_is_noticed(engine: Any, message: str) -> None:
    with pytest.raises(EngineMismatch, match=message):
        publish(engine, WeightPublisher().references(Moving(1), 1))


def test_an_engine_that_ends_is_no_mismatch() -> None:
    with pytest.raises(EngineError, match="could be compared") as caught:
        publish(Ending([[0]]), WeightPublisher().references(Moving(1), 1))
    assert not isinstance(caught.value, EngineMismatch)
