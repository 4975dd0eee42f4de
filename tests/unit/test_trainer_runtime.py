"""The runtime between rollout, store and trainer, without a model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agentic_gym.agent import PolicyAgent
from agentic_gym.errors import EngineMismatch, SandboxDead
from agentic_gym.rollout import Rollout
from agentic_gym.store import RunStore
from agentic_gym.testing import EchoEnv
from agentic_gym.tools import format_action
from agentic_gym.trainers.publisher import WeightPublisher
from agentic_gym.trainers.runtime import Runtime
from agentic_gym.trainers.schedules.sync import Sync
from agentic_gym.trainers.selection import UniformTasks
from agentic_gym.trainers.source import Start, Update

STOP = format_action([("stop", {})])


class NoPolicy:
    """A policy that nobody asks."""

    def weights(self) -> Mapping[str, Any]:
        return {}

    def logprobs(self, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> list[float]:
        return []


def make_runtime(rollout: Rollout, store: RunStore, **options: Any) -> Runtime:
    tasks = UniformTasks(["a", "b", "c"])
    return Runtime(rollout=rollout, schedule=Sync(2), tasks=tasks, store=store, **options)


@contextmanager
def one_batch(folder: Path, publisher: WeightPublisher) -> Iterator[tuple[Runtime, RunStore]]:
    """A runtime that has played its first batch."""
    with (
        RunStore(folder) as store,
        Rollout(EchoEnv, lambda _: PolicyAgent(lambda *_: STOP), concurrency=2) as rollout,
    ):
        runtime = make_runtime(rollout, store, publisher=publisher)
        runtime.begin(Start(0, NoPolicy()))
        runtime.next_batch()
        yield runtime, store


def test_episodes_that_break_are_counted_although_no_batch_has_them(tmp_path: Path) -> None:
    left = [3, 0]  # how many episodes break while each batch is played

    class Breaking(EchoEnv):
        def start(self, options: dict[str, Any]) -> str:
            if left[0]:
                left[0] -= 1
                raise SandboxDead("gone")
            return super().start(options)

    with (
        RunStore(tmp_path) as store,
        Rollout(Breaking, lambda _: PolicyAgent(lambda *_: STOP), concurrency=1) as rollout,
    ):
        runtime = make_runtime(rollout, store)
        runtime.begin(Start(0, NoPolicy()))
        for version in (1, 2):
            assert len(runtime.next_batch().trajectories) == 2
            runtime.update_finished(Update(version, NoPolicy(), None, {"reward": 0.0}))
        assert store.metrics("infra_errors") == [(1, 3.0), (2, 0.0)]
        assert store.check_conservation().trained == 4


def test_what_an_update_measured_is_kept_when_publishing_fails(tmp_path: Path) -> None:
    class Failing(WeightPublisher):
        def __init__(self) -> None:
            pass

        async def publish(self, policy: Any, version: int, prompts: Any = ()) -> float:
            if version:
                raise EngineMismatch("they differ")
            return 0.0

    with one_batch(tmp_path, Failing()) as (runtime, store):
        with pytest.raises(EngineMismatch):
            runtime.update_finished(Update(1, NoPolicy(), None, {"entropy": 0.5}))
        assert store.metrics("entropy") == [(1, 0.5)]


def test_every_publish_is_compared_also_the_first(tmp_path: Path) -> None:
    asked: list[Any] = []

    class Recording(WeightPublisher):
        def __init__(self) -> None:
            pass

        async def publish(self, policy: Any, version: int, prompts: Any = ()) -> float:
            asked.append(list(prompts))
            return 0.0

    with one_batch(tmp_path, Recording()) as (runtime, _):
        runtime.update_finished(Update(1, NoPolicy()))
    assert len(asked) == 2
    assert all(asked)
