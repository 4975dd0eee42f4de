"""A run that is taken up again carries on what old weights began, by those weights."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

from agentic_gym.engines.replicas import ReplicaSet
from agentic_gym.engines.scripted import Script, ScriptedEngine
from agentic_gym.rollout import Rollout
from agentic_gym.store import RunStore
from agentic_gym.testing import TokenAgent
from agentic_gym.trainers.live_weights import LiveWeights
from agentic_gym.trainers.publisher import WeightPublisher
from agentic_gym.trainers.run_parts import Run
from agentic_gym.trainers.runtime import Runtime
from agentic_gym.trainers.schedules.registry import make_schedule
from agentic_gym.trainers.selection import TaskSelector, UniformTasks
from agentic_gym.trainers.source import Start, Update
from agentic_gym.types import Outcome

pytestmark = pytest.mark.slow

BATCH = 4


class StickyEnv(gymnasium.Env[str, str]):
    """Two turns; the second of the task "slow" waits until it is let go."""

    def __init__(self, let_go: threading.Event, stuck: threading.Event) -> None:
        self._let_go = let_go
        self._stuck = stuck

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        assert options is not None
        self._slow, self._turn = options["task_id"] == "slow", 0
        return "start", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self._turn += 1
        if self._slow and self._turn == 2:
            self._stuck.set()
            self._let_go.wait(10)
        done = self._turn == 2
        return "more", 0.0, done, False, {"outcome": Outcome.FAILED} if done else {}


class SlowOnce(TaskSelector):
    """The slow task first, then quick ones."""

    def __init__(self) -> None:
        self._quick = UniformTasks(["a", "b", "c"])
        self._given = False

    def next_task(self) -> str:
        if self._given:
            return self._quick.next_task()
        self._given = True
        return "slow"

    def state_dict(self) -> dict[str, Any]:
        return {"given": self._given, "quick": self._quick.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._given = state["given"]
        self._quick.load_state_dict(state["quick"])


class FixedPolicy:
    """Weights that say which version they are."""

    def __init__(self) -> None:
        self.version = 0

    def weights(self) -> Mapping[str, Any]:
        return {"version": torch.tensor([float(self.version)])}

    def logprobs(self, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> list[float]:
        return [0.0] * len(token_ids)


def play(
    folder: Path,
    name: str,
    script: Script,
    updates: range,
    *,
    kept: bool,
    let_go: threading.Event,
    stuck: threading.Event,
) -> None:
    """One process of a run: it makes these updates, and is stopped before the slow episode ends."""
    policy = FixedPolicy()
    replicas = ReplicaSet({number: ScriptedEngine(script) for number in range(2)})
    with (
        RunStore(folder) as store,
        Rollout(lambda: StickyEnv(let_go, stuck), lambda _: TokenAgent(replicas)) as rollout,
    ):
        run = Run(
            rollout=rollout,
            schedule=make_schedule(name, batch_size=BATCH, concurrency=4, replicas=2),
            tasks=SlowOnce(),
            store=store,
            replicas=replicas,
            publisher=WeightPublisher(sequences=0),
            slots=4,
            tick_s=0.01,
            live=LiveWeights(folder / "live") if kept else None,
        )
        with Runtime(run, updates=4) as source:
            policy.version = updates.start
            source.begin(Start(updates.start, policy))
            for version in updates:
                batch = source.next_batch()
                assert batch.update == version + 1
                assert stuck.wait(10)
                policy.version = version + 1
                source.update_finished(Update(version + 1, policy))
                if version + 1 == updates.stop and not let_go.is_set():
                    source.close()
                    let_go.set()


@pytest.mark.parametrize("name", ["streaming", "relay"])
@pytest.mark.parametrize("kept", [True, False])
def test_an_episode_of_old_weights_goes_on_after_a_restart(
    tmp_path: Path, name: str, kept: bool
) -> None:
    asked: list[str] = []

    def script(prompt: Sequence[int], request_id: str) -> list[int]:
        asked.append(request_id)
        return [1 + int(np.frombuffer(request_id.encode(), np.uint8).sum()) % 30]

    stuck = threading.Event()
    play(tmp_path, name, script, range(2), kept=kept, let_go=threading.Event(), stuck=stuck)
    with RunStore(tmp_path) as store:
        before = {t.trajectory_id: t for t in store.carried()}
        slow = next(r.trajectory_id for r in store.in_flight() if r.task_id == "slow")
    assert before[slow].tokens is not None
    first = asked.count(f"{slow}/0")

    let_go = threading.Event()
    let_go.set()
    play(tmp_path, name, script, range(2, 4), kept=kept, let_go=let_go, stuck=stuck)
    with RunStore(tmp_path) as store:
        assert not store.check_conservation().refused
        [trajectory] = store.trajectories([slow])
    stream, prefix = trajectory.tokens, before[slow].tokens
    assert stream is not None
    assert prefix is not None
    versions = set(stream.versions[stream.sampled].tolist())
    if kept:
        assert versions == set(prefix.versions[prefix.sampled].tolist()) == {0}
        assert asked.count(f"{slow}/0") == first
        assert stream.ids[: len(prefix)].tolist() == prefix.ids.tolist()
    else:
        [version] = versions
        assert version >= 2  # a batch may have been recorded when the first process ended
        assert asked.count(f"{slow}/0") == first + 1
