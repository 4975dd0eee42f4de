"""The runtime between rollout, store and trainer, without a model."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentic_gym.agent import PolicyAgent
from agentic_gym.engines.replicas import ReplicaSet
from agentic_gym.engines.scripted import ScriptedEngine
from agentic_gym.errors import (
    ConfigError,
    EngineMismatch,
    InfraError,
    SandboxDead,
    StoreError,
    TrainingError,
)
from agentic_gym.rollout import Rollout
from agentic_gym.store import RunStore, TokenCredit
from agentic_gym.testing import EchoEnv
from agentic_gym.tools import format_action
from agentic_gym.trainers.publisher import WeightPublisher
from agentic_gym.trainers.relays.network import RelayNetwork
from agentic_gym.trainers.run_parts import Run
from agentic_gym.trainers.runtime import Runtime
from agentic_gym.trainers.schedules.base import Schedule
from agentic_gym.trainers.schedules.registry import make_schedule
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


@contextmanager
def running(
    folder: Path,
    *,
    make_env: Callable[[], Any] = EchoEnv,
    publisher: WeightPublisher | None = None,
    slots: int = 2,
    tasks: UniformTasks | None = None,
    schedule: Schedule | None = None,
) -> Iterator[tuple[Runtime, RunStore]]:
    """A runtime that has begun."""
    replicas = None if publisher is None else ReplicaSet({0: ScriptedEngine([[1]])})
    with (
        RunStore(folder) as store,
        Rollout(make_env, lambda _: PolicyAgent(lambda *_: STOP)) as rollout,
        Runtime(
            Run(
                rollout=rollout,
                schedule=schedule or Sync(2),
                tasks=tasks or UniformTasks(["a", "b", "c"]),
                store=store,
                replicas=replicas,
                publisher=publisher,
                slots=slots,
            )
        ) as runtime,
    ):
        runtime.begin(Start(0, NoPolicy()))
        yield runtime, store


def test_episodes_that_break_are_counted_although_no_batch_has_them(tmp_path: Path) -> None:
    left = [3, 0]  # how many episodes break while each batch is played

    class Breaking(EchoEnv):
        def start(self, options: dict[str, Any]) -> str:
            if left[0]:
                left[0] -= 1
                raise SandboxDead("gone")
            return super().start(options)

    with running(tmp_path, make_env=Breaking, slots=1) as (runtime, store):
        broken = []
        for version in (1, 2):
            batch = runtime.next_batch()
            assert len(batch.trajectories) == 2
            broken.append((batch.metrics["infra_errors"], batch.metrics["retries"]))
            runtime.update_finished(Update(version, NoPolicy(), None, {"reward": 0.0}))
        assert broken == [(3.0, 3.0), (0.0, 0.0)]
        assert store.check_conservation().trained == 4


def test_the_schedule_that_a_plan_uses_is_among_the_metrics(tmp_path: Path) -> None:
    rules = [{"schedule": "tail_batching", "at": [1]}]
    plan = make_schedule("plan", 2, rules=rules, min_updates=1)
    with running(tmp_path, schedule=plan) as (runtime, store):
        for version in (1, 2, 3):
            metrics = runtime.next_batch().metrics
            runtime.update_finished(Update(version, NoPolicy(), None, metrics))
        for name, values in {"sync": [1, 0, 1], "tail_batching": [0, 1, 0]}.items():
            assert [v for _, v in store.metrics(f"schedule_in_force/{name}")] == values


def test_what_an_update_measured_is_kept_when_publishing_fails(tmp_path: Path) -> None:
    class Failing(WeightPublisher):
        async def publish(self, engine: Any, weights: Any, version: int, *rest: Any) -> float:
            if version:
                raise EngineMismatch("they differ")
            return 0.0

    with running(tmp_path, publisher=Failing()) as (runtime, store):
        runtime.next_batch()
        runtime.update_finished(Update(1, NoPolicy(), None, {"entropy": 0.5}))
        with pytest.raises(EngineMismatch):
            runtime.next_batch()
        assert store.metrics("entropy") == [(1, 0.5)]


def test_credit_and_what_was_selected_are_kept_with_the_update(tmp_path: Path) -> None:
    class Told(UniformTasks):
        def summary(self) -> dict[str, dict[str, dict[str, float]]]:
            return {"repo": {"r": {"available": 3.0, "trained": float(len(seen))}}}

    seen: list[int] = []
    with running(tmp_path, tasks=Told(["a", "b", "c"])) as (runtime, store):
        for version in (1, 2):
            seen.append(version)
            names = [t.trajectory_id for t in runtime.next_batch().trajectories]
            numbers = np.arange(version, version + 3, dtype=np.float32)
            credit = {name: TokenCredit(numbers, -numbers) for name in names}
            runtime.update_finished(Update(version, NoPolicy(), credit=credit))
            kept = store.credit(names[-1])
            assert kept is not None
            assert (kept.rewards.tolist(), kept.advantages.tolist()) == (
                numbers.tolist(),
                (-numbers).tolist(),
            )
            assert store.get_state("selection_summary")["repo"]["r"]["trained"] == version


def test_what_cannot_be_kept_leaves_the_update_untrained(tmp_path: Path) -> None:
    with running(tmp_path) as (runtime, store):
        name = runtime.next_batch().trajectories[0].trajectory_id
        bad = TokenCredit(np.zeros(1, np.float32), np.zeros(2, np.float32))
        with pytest.raises(StoreError, match="must be float32"):
            runtime.update_finished(Update(1, NoPolicy(), None, {"reward": 0.0}, {name: bad}))
        assert store.counts().trained == 0
        assert store.metrics("reward") == []


def test_every_publish_is_compared_also_the_first(tmp_path: Path) -> None:
    asked: list[Any] = []

    class Recording(WeightPublisher):
        async def publish(
            self, engine: Any, weights: Any, version: int, references: Any, mode: Any = "wait"
        ) -> float:
            asked.append((version, references.version, references.prompts))
            return 0.0

    with running(tmp_path, publisher=Recording()) as (runtime, _):
        runtime.next_batch()
        runtime.update_finished(Update(1, NoPolicy()))
        runtime.next_batch()
    assert [(version, of) for version, of, _ in asked] == [(0, 0), (1, 1)]
    assert all(prompts for _, _, prompts in asked)


def test_an_error_of_every_episode_ends_the_run(tmp_path: Path) -> None:
    class Wrong(EchoEnv):
        def start(self, options: dict[str, Any]) -> str:
            raise ConfigError("no such task")

    with running(tmp_path, make_env=Wrong) as (runtime, _):
        with pytest.raises(ConfigError, match="no such task"):
            runtime.next_batch()


def test_a_run_that_stands_still_ends_and_says_who_waits(tmp_path: Path) -> None:
    gate = threading.Event()

    class Hanging(EchoEnv):
        def start(self, options: dict[str, Any]) -> str:
            gate.wait(10)
            return super().start(options)

    with (
        RunStore(tmp_path) as store,
        Rollout(Hanging, lambda _: PolicyAgent(lambda *_: STOP)) as rollout,
    ):
        tasks = UniformTasks(["a", "b", "c"])
        run = Run(rollout, Sync(2), tasks, store, slots=1, stall_s=0.05, tick_s=0.02)
        with Runtime(run) as runtime:
            runtime.begin(Start(0, NoPolicy()))
            with pytest.raises(InfraError, match="waits for reset") as caught:
                runtime.next_batch()
            gate.set()
        assert "1 active, 1 queued" in str(caught.value)


def test_using_a_runtime_that_has_not_begun_says_so(tmp_path: Path) -> None:
    with (
        RunStore(tmp_path) as store,
        Rollout(EchoEnv, lambda _: PolicyAgent(STOP.format)) as rollout,
    ):
        runtime = Runtime(Run(rollout, Sync(2), UniformTasks(["a"]), store))
        with pytest.raises(TrainingError, match="begin first"):
            runtime.next_batch()


def test_relays_with_nothing_to_carry_are_refused(tmp_path: Path) -> None:
    replicas = ReplicaSet({0: ScriptedEngine([[1]])})
    parts: list[dict[str, Any]] = [{}, {"replicas": replicas}, {"publisher": WeightPublisher()}]
    with (
        RunStore(tmp_path) as store,
        Rollout(EchoEnv, lambda _: PolicyAgent(STOP.format)) as rollout,
    ):
        for given in parts:
            with pytest.raises(ConfigError, match="give replicas and a publisher"):
                Run(
                    rollout, Sync(2), UniformTasks(["a"]), store,
                    relays=RelayNetwork(tmp_path / "relays", 1), **given,
                )  # fmt: skip


@pytest.mark.parametrize(
    "options", [{"relays": 0}, {"relays": 1, "max_deaths": -1}, {"relays": 1, "heartbeat_s": 3.0}]
)
def test_numbers_out_of_range(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="must be positive"):
        RelayNetwork(tmp_path, **options)
