"""Schedules whose replicas get their weights through relays."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import pytest
import torch

from agentic_gym.engines.replicas import ReplicaSet
from agentic_gym.engines.scripted import ScriptedEngine
from agentic_gym.rollout import Rollout
from agentic_gym.store import RunStore
from agentic_gym.testing import TokenAgent
from agentic_gym.trainers.publisher import References, WeightPublisher, Weights
from agentic_gym.trainers.publishing import Publishing
from agentic_gym.trainers.relays.network import RelayNetwork
from agentic_gym.trainers.rollout_metrics import RolloutMetrics
from agentic_gym.trainers.run_parts import Run
from agentic_gym.trainers.runtime import Runtime
from agentic_gym.trainers.schedules.registry import make_schedule
from agentic_gym.trainers.selection import UniformTasks
from agentic_gym.trainers.source import Start, Update
from agentic_gym.types import Outcome

pytestmark = pytest.mark.slow


class OneTurn(gymnasium.Env[str, str]):
    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        return "start", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        time.sleep(0.002)
        return "end", 0.0, True, False, {"outcome": Outcome.FAILED}


class FixedPolicy:
    """Weights that say which version they are."""

    def __init__(self) -> None:
        self.version = 0

    def weights(self) -> Mapping[str, Any]:
        return {"version": torch.tensor([float(self.version)])}

    def logprobs(self, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> list[float]:
        return [0.0] * len(token_ids)


class Looking(WeightPublisher):
    """Sees that the weights are those of their version, and of whoever asks for the newest."""

    def __init__(self, policy: FixedPolicy) -> None:
        super().__init__(sequences=0)
        self.policy = policy
        self.loaded: list[int] = []

    async def publish(
        self, engine: Any, weights: Mapping[str, Any], version: int, *rest: Any
    ) -> float:
        assert float(weights["version"]) == version
        self.loaded.append(version)
        return await super().publish(engine, weights, version, *rest)


class Watched(RelayNetwork):
    """Counts what is loaded through it, and loses a relay now and then."""

    fetched = 0

    async def fetch(self, node: int, *, at_least: int) -> Weights:
        weights = await super().fetch(node, at_least=at_least)
        self.fetched += 1
        return weights

    async def push(self, weights: Weights) -> None:
        if weights.version in (2, 4):
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pids[self.order[weights.version % 4 // 2]], signal.SIGKILL)
        await super().push(weights)


@pytest.mark.parametrize(
    ("name", "options", "stale"),
    [
        ("sync", {}, 0),
        ("tail_batching", {}, 5),
        ("bounded_async", {"max_staleness": 1}, 1),
        ("streaming", {"window": 1}, 1),
        ("relay", {"max_staleness": 1}, 1),
    ],
)
def test_every_schedule_keeps_its_bound_with_relays(
    tmp_path: Path, name: str, options: dict[str, Any], stale: int
) -> None:
    policy = FixedPolicy()
    replicas = ReplicaSet({number: ScriptedEngine(lambda *_: [1]) for number in range(2)})
    publisher, network = Looking(policy), Watched(tmp_path / "relays", 2)
    with (
        RunStore(tmp_path) as store,
        Rollout(OneTurn, lambda _: TokenAgent(replicas)) as rollout,
    ):
        run = Run(
            rollout=rollout,
            schedule=make_schedule(name, batch_size=8, concurrency=8, replicas=2, **options),
            tasks=UniformTasks(["a", "b"]),
            store=store,
            replicas=replicas,
            publisher=publisher,
            slots=8,
            relays=network,
        )
        with Runtime(run, updates=6) as source:
            source.begin(Start(0, policy))
            for update in range(1, 7):
                batch = source.next_batch()
                for trajectory in batch.trajectories:
                    assert trajectory.tokens is not None
                    versions = trajectory.tokens.versions[trajectory.tokens.sampled]
                    assert update - 1 - stale <= versions.min() <= versions.max() <= update - 1
                policy.version = update
                source.update_finished(Update(update, policy))
    assert set(replicas.versions.values()) == {6}
    assert network.fetched == len(publisher.loaded) >= 4
    assert not network.pids
    assert not (tmp_path / "relays").exists()


def plain(version: int) -> Weights:
    tensors = {"version": torch.tensor([float(version)])}
    return Weights(version, tensors, References(version, (), (), ()))


class Lingering(RelayNetwork):
    """The trainer hears late that the master has the weights."""

    async def push(self, weights: Weights) -> None:
        await super().push(weights)
        await asyncio.sleep(0.1)


def test_no_replica_serves_what_the_schedule_has_not_heard_of(tmp_path: Path) -> None:
    replicas = ReplicaSet({0: ScriptedEngine(lambda *_: [1])})
    events: list[tuple[str, int]] = []

    async def main(run: Run) -> None:
        publishing = Publishing(
            run,
            plain(0),
            spawn=asyncio.create_task,
            metrics=RolloutMetrics,
            on_published=lambda version, replica: events.append(("published", version)),
            on_error=lambda error: events.append((str(error), -1)),
        )
        await publishing.begin()
        assert replicas.versions == {0: 0}
        publishing.publish(None, "wait")
        await publishing.move_on(plain(1), tell=lambda: events.append(("trained", 1)))
        async with asyncio.timeout(5):
            while publishing.loading:
                await asyncio.sleep(0.01)
        await publishing.close()

    with (
        RunStore(tmp_path) as store,
        Rollout(OneTurn, lambda _: TokenAgent(replicas)) as rollout,
    ):
        asyncio.run(
            main(
                Run(
                    rollout=rollout,
                    schedule=make_schedule("sync", batch_size=1, concurrency=1, replicas=1),
                    tasks=UniformTasks(["a"]),
                    store=store,
                    replicas=replicas,
                    publisher=WeightPublisher(sequences=0),
                    relays=Lingering(tmp_path / "relays", 1),
                )
            )
        )
    assert events == [("trained", 1), ("published", 1)]
