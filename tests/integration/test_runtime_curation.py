"""What the runtime keeps from the trainer, and what its task selector hears."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from agentic_gym.engines.replicas import ReplicaSet
from agentic_gym.engines.scripted import ScriptedEngine
from agentic_gym.errors import InfraError, TrainingError
from agentic_gym.rewards.rubric import Rubric, register_reward
from agentic_gym.rollout import Rollout
from agentic_gym.store import RunStore
from agentic_gym.testing import KeyEnv, TokenAgent
from agentic_gym.trainers.publisher import WeightPublisher
from agentic_gym.trainers.run_parts import Run
from agentic_gym.trainers.runtime import Runtime
from agentic_gym.trainers.schedules.registry import make_schedule
from agentic_gym.trainers.selection.base import TaskFacts
from agentic_gym.trainers.selection.filters import FilterSection, TrajectoryFilter
from agentic_gym.trainers.selection.refill import REFUSED, Refill
from agentic_gym.trainers.selection.registry import make_selector
from agentic_gym.trainers.source import Batch, Start, Update
from agentic_gym.types import Trajectory

pytestmark = pytest.mark.slow

BATCH, GROUP, KEYS = 8, 2, 4
FACTS = [
    TaskFacts(f"key-{key}", error_class="even" if key % 2 else "odd") for key in range(1, KEYS + 1)
]


class FixedPolicy:
    """Weights that nothing reads."""

    def weights(self) -> Mapping[str, Any]:
        return {"nothing": torch.zeros(1)}

    def logprobs(self, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> list[float]:
        return [0.0] * len(token_ids)


def script(prompt: Sequence[int], request_id: str) -> list[int]:
    """The right key in half of the episodes, by their names alone."""
    key = prompt[1]
    lucky = hashlib.sha256(request_id.encode()).digest()[0] % 2
    return [key if lucky else 1 + key % KEYS]


def play(
    folder: Path, updates: range, *, schedule: str = "sync", **given: Any
) -> tuple[list[Batch], dict[str, Any]]:
    """One process of a run: the batches of these updates, and the state at its end."""
    replicas = ReplicaSet({0: ScriptedEngine(script), 1: ScriptedEngine(script)})
    batches = []
    with (
        RunStore(folder) as store,
        Rollout(
            lambda: KeyEnv(KEYS, distractions=1),
            lambda _: TokenAgent(replicas, prompt=(9,), observation=None),
        ) as rollout,
    ):
        run = Run(
            rollout=rollout,
            schedule=make_schedule(schedule, BATCH, GROUP, concurrency=16, replicas=2),
            store=store,
            replicas=replicas,
            publisher=WeightPublisher(sequences=0),
            slots=4,
            seed=3,
            tick_s=0.01,
            group_size=GROUP,
            **{"tasks": make_selector("band+diversity", FACTS, seed=1), **given},
        )
        with Runtime(run, updates=100) as source:
            source.begin(Start(updates.start, FixedPolicy()))
            for version in updates:
                batches.append(source.next_batch())
                source.update_finished(Update(version + 1, FixedPolicy()))
            state = source.state_dict()
        assert not store.check_conservation().refused
    return batches, state


def rewards(group: Sequence[Trajectory]) -> set[float]:
    return {trajectory.reward for trajectory in group}


def groups(batch: Batch) -> list[list[Trajectory]]:
    found: dict[str, list[Trajectory]] = {}
    for trajectory in batch.trajectories:
        found.setdefault(trajectory.group_id, []).append(trajectory)
    return list(found.values())


@pytest.mark.parametrize(
    "schedule", ["sync", "tail_batching", "bounded_async", "streaming", "relay"]
)
def test_groups_that_teach_nothing_are_played_again(tmp_path: Path, schedule: str) -> None:
    batches, _ = play(tmp_path, range(4), schedule=schedule, refill=Refill(max_in_a_row=50))
    for batch in batches:
        assert len(batch.trajectories) == BATCH
        assert all(len(group) == GROUP and len(rewards(group)) == 2 for group in groups(batch))
    assert batches[-1].metrics["refill_refused"] > 0.1
    with RunStore(tmp_path) as store:
        reasons = store.counts().dropped
    assert set(reasons) == {REFUSED}
    assert reasons[REFUSED] % GROUP == 0


def test_without_it_some_do(tmp_path: Path) -> None:
    batches, _ = play(tmp_path, range(4))
    assert any(len(rewards(group)) == 1 for batch in batches for group in groups(batch))


def test_a_run_in_parts_draws_what_a_whole_one_draws(tmp_path: Path) -> None:
    """Selector, refill and filter are taken up where they were, also what they had refused."""

    def curated() -> dict[str, Any]:
        return {
            "refill": Refill(max_in_a_row=50),
            "tasks": make_selector("band+diversity", FACTS, seed=1),
        }

    whole, _ = play(tmp_path / "whole", range(6), **curated())
    parts: list[Batch] = []
    for start in range(0, 6, 2):
        more, _ = play(tmp_path / "parts", range(start, start + 2), **curated())
        parts += more
    for one, other in zip(whole, parts, strict=True):
        assert [(t.trajectory_id, t.task_id, t.reward) for t in one.trajectories] == [
            (t.trajectory_id, t.task_id, t.reward) for t in other.trajectories
        ]


def test_what_a_filter_drops_is_in_no_batch_and_has_its_reason(tmp_path: Path) -> None:
    # Right ones repeat the key; wrong ones are two different tokens: nothing but names decides.
    class Odd(TrajectoryFilter):
        def judge(self, trajectory: Trajectory) -> str | None:
            return "solved" if trajectory.reward else None

    batches, _ = play(tmp_path, range(3), filter=Odd(FilterSection()))
    for batch in batches:
        assert 0 < len(batch.trajectories) < BATCH
        assert rewards(batch.trajectories) == {0.0}
        assert batch.metrics["dropped/solved"] == BATCH - len(batch.trajectories)
    with RunStore(tmp_path) as store:
        assert set(store.counts().dropped) == {"solved"}


def test_a_filter_that_leaves_nothing_says_so(tmp_path: Path) -> None:
    everything = TrajectoryFilter(FilterSection(max_tokens=1))
    with pytest.raises(TrainingError, match=r"drop all 8 .* update 1 .*over_length.*8"):
        play(tmp_path, range(1), filter=everything)


@register_reward("tests_length")
def length(trajectory: Trajectory) -> list[float]:
    return [1.0] * len(trajectory.turns)


@register_reward("tests_breaks_often")
def breaks_often(trajectory: Trajectory) -> float:
    if trajectory.trajectory_id.endswith("00"):
        raise RuntimeError("no reward today")
    return 0.0


def test_custom_rewards_are_added_and_logged_apart(tmp_path: Path) -> None:
    plain, _ = play(tmp_path / "plain", range(1))
    [batch], _ = play(tmp_path / "more", range(1), rubric=Rubric({"tests_length": 0.25}))
    for before, after in zip(plain[0].trajectories, batch.trajectories, strict=True):
        assert after.reward == before.reward + 0.25 * len(before.turns)
        assert after.metrics["reward/tests_length"] == len(before.turns)


def test_a_reward_that_breaks_is_no_reward(tmp_path: Path) -> None:
    with pytest.raises(InfraError, match="no reward today"):
        play(tmp_path, range(1), rubric=Rubric({"tests_breaks_often": 1.0}))


def test_the_selector_hears_each_batch_once(tmp_path: Path) -> None:
    batches, state = play(tmp_path, range(5))
    assert state["curation"]["observed"] >= 5
    counted = state["curation"]["tasks"]
    assert counted  # what it learned is saved
    assert batches[-1].metrics["selection_in_band"] >= 0.0
