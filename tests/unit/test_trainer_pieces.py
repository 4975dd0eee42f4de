"""Parts of a batch that the runtime hands over before it is whole."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agentic_gym.agent import PolicyAgent
from agentic_gym.errors import InfraError
from agentic_gym.rollout import Rollout
from agentic_gym.store import RunStore
from agentic_gym.testing import EchoEnv
from agentic_gym.tools import format_action
from agentic_gym.trainers.run_parts import Run
from agentic_gym.trainers.runtime import Runtime
from agentic_gym.trainers.schedules.sync import Sync
from agentic_gym.trainers.selection import UniformTasks
from agentic_gym.trainers.source import Start, Update
from agentic_gym.types import Trajectory

WORK_S = 0.06
STOP = format_action([("stop", {})])


class NoPolicy:
    """A policy that nobody asks."""

    def weights(self) -> Mapping[str, Any]:
        return {}

    def logprobs(self, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> list[float]:
        return []


class OneSlow:
    """Environments of which those of one task wait for a gate."""

    def __init__(self) -> None:
        self.gate = threading.Event()

    def make(self) -> EchoEnv:
        gate = self.gate

        class Env(EchoEnv):
            def start(self, options: dict[str, Any]) -> str:
                if options["task_id"] == "slow":
                    gate.wait(10)
                return super().start(options)

        return Env()


class InTurn(UniformTasks):
    """Every fourth task is the slow one."""

    def next_task(self) -> str:
        self._drawn = getattr(self, "_drawn", 0) + 1
        return "slow" if self._drawn % 4 == 1 else "quick"


@contextmanager
def running(folder: Path, slow: OneSlow, **options: Any) -> Iterator[tuple[Runtime, RunStore]]:
    """A runtime, not begun, of batches of four."""
    with (
        RunStore(folder) as store,
        Rollout(slow.make, lambda _: PolicyAgent(lambda *_: STOP)) as rollout,
        Runtime(
            Run(
                rollout=rollout,
                schedule=Sync(4, stage=True),
                tasks=InTurn(["slow", "quick"]),
                store=store,
                slots=4,
                **options,
            )
        ) as runtime,
    ):
        yield runtime, store


def names(trajectories: Sequence[Trajectory]) -> list[str]:
    return [t.trajectory_id for t in trajectories]


def test_what_is_certain_is_handed_over_while_the_rest_is_played(tmp_path: Path) -> None:
    slow, here = OneSlow(), threading.get_ident()
    pieces: list[list[str]] = []

    def learn(piece: Sequence[Trajectory]) -> None:
        assert threading.get_ident() == here
        assert not slow.gate.is_set()
        pieces.append(names(piece))
        if sum(map(len, pieces)) % 3 == 0:
            time.sleep(WORK_S)
            slow.gate.set()

    with running(tmp_path, slow) as (runtime, store):
        runtime.begin(Start(0, NoPolicy()))
        batch = runtime.next_batch(learn)
        first = [f"g{number:06d}.00" for number in range(4)]
        assert names(batch.trajectories) == first
        assert sorted(name for piece in pieces for name in piece) == first[1:]
        assert store.get_state("pieces") == {"1": pieces}
        slow.gate.clear()
        runtime.update_finished(Update(1, NoPolicy()))
        began = time.perf_counter()
        batch = runtime.next_batch(learn)
        seconds = time.perf_counter() - began
        assert names(batch.trajectories) == [f"g{number:06d}.00" for number in range(4, 8)]
        # It was not idle while it worked; the share is of a little more time.
        assert batch.metrics["trainer_idle_share"] * seconds <= seconds - WORK_S + 0.01

    # Nothing was saved: the batches come again, in the same parts.
    again: list[list[str]] = []
    with running(tmp_path, slow) as (runtime, _):
        runtime.begin(Start(0, NoPolicy()))
        for version in (1, 2):
            batch = runtime.next_batch(lambda piece: again.append(names(piece)))
            assert batch.update == version
            runtime.update_finished(Update(version, NoPolicy()))
        assert again == pieces


def test_parts_of_batches_that_a_checkpoint_covers_are_forgotten(tmp_path: Path) -> None:
    slow = OneSlow()
    with running(tmp_path, slow) as (runtime, store):
        runtime.begin(Start(0, NoPolicy()))
        for version, checkpoint in ((1, None), (2, tmp_path / "checkpoint-2"), (3, None)):
            slow.gate.clear()
            runtime.next_batch(lambda _: slow.gate.set())
            runtime.update_finished(Update(version, NoPolicy(), checkpoint))
            kept = {1: {"1"}, 2: {"1", "2"}, 3: {"3"}}[version]
            assert set(store.get_state("pieces")) == kept


def test_who_does_not_ask_gets_no_parts(tmp_path: Path) -> None:
    slow = OneSlow()
    slow.gate.set()
    with running(tmp_path, slow) as (runtime, store):
        runtime.begin(Start(0, NoPolicy()))
        assert len(runtime.next_batch().trajectories) == 4
        assert store.get_state("pieces") is None


def test_what_ends_the_run_while_parts_are_worked_on_is_raised(tmp_path: Path) -> None:
    slow = OneSlow()
    with running(tmp_path, slow, stall_s=0.05, tick_s=0.01) as (runtime, _):
        runtime.begin(Start(0, NoPolicy()))
        with pytest.raises(InfraError, match="waits for reset"):
            runtime.next_batch(lambda _: time.sleep(0.01))
        slow.gate.set()
