"""A run killed at any instant and resumed trains exactly what an unkilled run trains.

A warm parent forks one child a kill, so that each costs no import. The child runs everything for real
(episodes in threads, SQLite, TRL's loop, checkpoints) and sends SIGKILL to itself at a chosen point: in
an agent's or an environment's call, in an optimiser step, or while a file is opened or renamed, which
an audit hook sees.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import Qwen3Config, Qwen3ForCausalLM

from agentic_gym.agent import AgentAction
from agentic_gym.engines.replicas import ReplicaSet
from agentic_gym.engines.scripted import ScriptedEngine
from agentic_gym.errors import SandboxDead
from agentic_gym.rollout import Launch, Rollout
from agentic_gym.store import LaunchRecord, RunStore
from agentic_gym.testing import TokenAgent
from agentic_gym.trainers.checkpoints import newest
from agentic_gym.trainers.config import AgenticPPOConfig
from agentic_gym.trainers.live_weights import LiveWeights
from agentic_gym.trainers.ppo_trainer import AgenticPPOTrainer
from agentic_gym.trainers.publisher import WeightPublisher
from agentic_gym.trainers.run_parts import Run
from agentic_gym.trainers.runtime import Runtime
from agentic_gym.trainers.schedules.registry import make_schedule
from agentic_gym.trainers.selection import UniformTasks
from agentic_gym.types import Completion, Outcome, TokenStream, Trajectory, Turn

pytestmark = [
    pytest.mark.slow,
    # The children are forked on purpose, before any thread of theirs is started.
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork.*:DeprecationWarning"),
]

VOCAB, UPDATES, BATCH, CONCURRENCY = 32, 5, 4, 3
BOUND = 2
OPTIONS: dict[str, dict[str, Any]] = {
    "sync": {},
    "tail_batching": {"prompt_redundancy": 1.5},
    "bounded_async": {"max_staleness": BOUND},
    "streaming": {"window": BOUND},
    "relay": {"max_staleness": BOUND, "repack_seconds": 0.05},
}
TASKS = [f"task-{i}" for i in range(7)]

Hit = Callable[[str], None]


class CountingEnv(gymnasium.Env[str, str]):
    """Three turns, then a grade that depends on the actions and the task; one task breaks at first."""

    broken: set[int] = set()  # noqa: RUF012  # shared by the environments of a process on purpose

    def __init__(self, hit: Hit) -> None:
        self._hit = hit

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        self._turn = self._sum = 0
        self._key = seed or 0
        assert options is not None
        self._task = options["task_id"]
        return "start", {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self._hit("env")
        self._turn += 1
        self._sum += sum(map(int, action.split()))
        if self._task == "task-2" and self._key not in self.broken:
            self.broken.add(self._key)
            raise SandboxDead("gone")
        done = self._turn == 3
        solved = self._sum % 2 == 0
        info = {"outcome": Outcome.SOLVED if solved else Outcome.FAILED} if done else {}
        return "more", float(done and solved), done, False, info


class SeededAgent:
    """Samples from a generator that knows only the episode's seed, as a served policy would."""

    def __init__(self, hit: Hit, version: Callable[[], int]) -> None:
        self._hit = hit
        self._version = version
        self._parts: list[tuple[list[int], bool, int]] = []

    async def begin(
        self, trajectory_id: str, seed: int, observation: str, info: Mapping[str, Any]
    ) -> None:
        self._rng = np.random.default_rng(seed)
        self._turn = 0
        self._parts.append((self._rng.integers(0, VOCAB, 6).tolist(), False, -1))

    async def act(self) -> AgentAction:
        await asyncio.sleep(0.0005 * float(self._rng.random()))
        self._hit("agent")
        ids = self._rng.integers(0, VOCAB, int(self._rng.integers(1, 5))).tolist()
        self._parts.append((ids, True, self._turn))
        return AgentAction(str(sum(ids)))

    async def recall(self, turn: Turn, completion: Completion | None) -> None:
        assert (await self.act()).text == turn.action

    def observe(self, observation: str, info: Mapping[str, Any]) -> None:
        self._parts.append((self._rng.integers(0, VOCAB, 3).tolist(), False, self._turn))
        self._turn += 1

    def stream(self) -> TokenStream:
        ids = [i for part, _, _ in self._parts for i in part]
        sampled = np.asarray([made for part, made, _ in self._parts for _ in part])
        turns = [turn for part, _, turn in self._parts for _ in part]
        return TokenStream(
            ids=np.asarray(ids, np.int32),
            sampled=sampled,
            logprobs=np.where(sampled, -np.log(VOCAB), 0).astype(np.float32),
            versions=np.where(sampled, self._version(), -1).astype(np.int32),
            turns=np.asarray(turns, np.int32),
        )

    async def end(self) -> None:
        pass


class HitAgent(TokenAgent):
    """Says when it is asked."""

    def __init__(self, hit: Hit, engine: ReplicaSet) -> None:
        super().__init__(engine, max_tokens=4)
        self._hit = hit

    async def act(self) -> AgentAction:
        self._hit("agent")
        return await super().act()


def make_replicas() -> ReplicaSet:
    def script(prompt: Sequence[int], request_id: str) -> list[int]:
        rng = np.random.default_rng([len(prompt), *map(ord, request_id)])
        return [int(i) for i in rng.integers(1, VOCAB, int(rng.integers(1, 5)))]

    return ReplicaSet({number: ScriptedEngine(script) for number in range(2)})


class WatchedStore(RunStore):
    """A store that tells of each write before it is made."""

    def __init__(self, path: Path, hit: Hit) -> None:
        super().__init__(path)
        self._hit = hit

    def put_state(self, key: str, value: Any) -> None:
        self._hit("store")
        super().put_state(key, value)

    def launch(self, records: Sequence[LaunchRecord]) -> None:
        self._hit("store")
        super().launch(records)

    def finish(self, trajectory: Trajectory) -> bool:
        self._hit("store")
        return super().finish(trajectory)

    def record_batch(self, update: int, ids: Sequence[str]) -> None:
        self._hit("store")
        super().record_batch(update, ids)

    def mark_trained(self, update: int, checkpoint: str | os.PathLike[str] | None = None) -> None:
        self._hit("store")
        super().mark_trained(update, checkpoint)


def train(folder: Path, hit: Hit, name: str) -> None:
    """One process of a run: resumes if there is something to resume.

    The synchronous one samples from generators that know the episode alone, so that what is trained does not
    depend on when it was interrupted; the others from replicas, whose versions they have to respect.
    """
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=VOCAB, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=1, head_dim=8, tie_word_embeddings=True,
    )  # fmt: skip
    args = AgenticPPOConfig(
        output_dir=str(folder / "checkpoints"), max_steps=UPDATES, minibatch_size=2, save_steps=2,
        ppo_epochs=2, use_cpu=True, learning_rate=1e-2,
    )  # fmt: skip
    with WatchedStore(folder, hit) as store:
        trainers: list[AgenticPPOTrainer] = []

        replicas = None if name == "sync" else make_replicas()

        def agent(_: Launch) -> SeededAgent | HitAgent:
            if replicas is None:
                return SeededAgent(hit, lambda: trainers[0].version)
            return HitAgent(hit, replicas)

        with Rollout(lambda: CountingEnv(hit), agent) as rollout:
            run = Run(
                rollout=rollout,
                schedule=make_schedule(
                    name, batch_size=BATCH, concurrency=CONCURRENCY, replicas=2, **OPTIONS[name]
                ),
                tasks=UniformTasks(TASKS, seed=1),
                store=store,
                replicas=replicas,
                publisher=None if replicas is None else WeightPublisher(sequences=0),
                slots=CONCURRENCY,
                seed=5,
                live=LiveWeights(folder / "live"),
                tick_s=0.01,
            )
            source = Runtime(run, updates=UPDATES)
            trainer = AgenticPPOTrainer(Qwen3ForCausalLM(config), args, source)
            trainers.append(trainer)
            trainer.create_optimizer()
            assert trainer.optimizer is not None
            trainer.optimizer.register_step_pre_hook(lambda *_: hit("optimizer"))
            with source:
                trainer.train(resume_from_checkpoint=True)


def run_child(folder: Path, kind: str, at: int, name: str = "sync", limit_s: float = 300.0) -> int:
    """Runs :func:`train` in a forked child that kills itself at the ``at``-th hit of a kind.

    Kind "time" kills after ``at`` milliseconds. Returns the child's wait status.
    """
    child = os.fork()
    if child == 0:
        try:
            torch.set_num_threads(1)  # OpenMP's threads do not survive a fork
            seen: Counter[str] = Counter()

            def hit(where: str) -> None:
                seen[where] += 1
                if where == kind and seen[where] == at:
                    os.kill(os.getpid(), signal.SIGKILL)

            def audit(event: str, arguments: tuple[Any, ...]) -> None:
                if event == "open" and ".staging" in str(arguments[0]):
                    hit("open")
                elif event in {"os.rename", "shutil.rmtree", "os.mkdir"}:
                    hit("rename")

            if kind == "time":
                timer = threading.Timer(at / 1000, os.kill, (os.getpid(), signal.SIGKILL))
                timer.daemon = True
                timer.start()
            sys.addaudithook(audit)
            train(folder, hit, name)
            os._exit(0)
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(1)
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise TimeoutError(f"the child did not end within {limit_s} s")


def outcome_of(folder: Path) -> tuple[Any, ...]:
    """Everything by which two runs are compared: trained multiset, batches, version, parameters."""
    with RunStore(folder) as store:
        counts = store.check_conservation()
        batches = [
            [(t.trajectory_id, t.task_id, t.seed, t.reward) for t in store.trajectories(names)]
            for _, names in store.batches_after(0)
        ]
        checkpoint = store.latest_checkpoint()
    folder_of = newest(folder / "checkpoints")
    assert checkpoint is not None
    assert folder_of is not None
    assert checkpoint == (UPDATES, folder_of)
    weights = load_file(folder_of / "model.safetensors") | load_file(
        folder_of / "value_head.safetensors"
    )
    return counts.trained, counts.launches, batches, weights


def assert_same(killed: tuple[Any, ...], whole: tuple[Any, ...]) -> None:
    assert killed[:3] == whole[:3]
    assert killed[3].keys() == whole[3].keys()
    for name, tensor in whole[3].items():
        assert torch.equal(killed[3][name], tensor), name


# Of "store": 3 is between the task cursor and the launches behind it, 8 before a batch is recorded,
# 9 before it is marked as trained.
KILLS = [
    ("agent", 1), ("agent", 17), ("env", 7), ("env", 29), ("optimizer", 1), ("optimizer", 3),
    ("optimizer", 6), ("open", 1), ("open", 3), ("open", 8), ("rename", 2), ("rename", 3),
    ("store", 3), ("store", 5), ("store", 8), ("store", 9), ("store", 11), ("time", 60),
    ("time", 250),
]  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, ...]:
    """An unkilled run."""
    folder = tmp_path_factory.mktemp("whole")
    assert run_child(folder, "never", 0) == 0
    return outcome_of(folder)


def test_an_unkilled_run_trains_every_update_and_retries_what_broke(whole: Any) -> None:
    trained, launches, batches, _ = whole
    assert (trained, launches) == (UPDATES * BATCH, UPDATES * BATCH)
    assert len(batches) == UPDATES
    assert any(task == "task-2" for batch in batches for _, task, _, _ in batch)


def test_runs_killed_again_and_again_equal_an_unkilled_one(whole: Any, tmp_path: Path) -> None:
    kills = KILLS.copy()
    random.Random(0).shuffle(kills)
    struck: Counter[str] = Counter()
    runs = 0
    while kills:
        folder = tmp_path / f"run-{runs}"
        runs += 1
        for chain in range(6):  # then this run may end, and the next one is tormented
            kind, at = kills.pop() if kills and chain < 5 else ("never", 0)
            status = run_child(folder, kind, at)
            if status == 0:
                break
            assert os.WIFSIGNALED(status), f"the child failed after a kill ({kind}, {at})"
            assert os.WTERMSIG(status) == signal.SIGKILL
            struck[kind] += 1
        assert_same(outcome_of(folder), whole)
    assert struck.total() >= 12
    assert set(struck) == {kind for kind, _ in KILLS}


@pytest.mark.parametrize("name", [name for name in OPTIONS if name != "sync"])
def test_any_schedule_killed_again_and_again_keeps_its_promises(name: str, tmp_path: Path) -> None:
    kills = [
        ("agent", 14),
        ("time", 150),
        ("optimizer", 2),
        ("store", 20),
        ("env", 9),
        ("time", 90),
    ]
    for kind, at in kills:
        status = run_child(tmp_path, kind, at, name)
        assert status == 0 or os.WTERMSIG(status) == signal.SIGKILL
    assert run_child(tmp_path, "never", 0, name) == 0
    with RunStore(tmp_path) as store:
        counts = store.check_conservation()
        assert counts.trained == UPDATES * BATCH
        assert not counts.refused
        for update, names in store.batches_after(0):
            assert len(names) == BATCH
            for trajectory in store.trajectories(names):
                stream = trajectory.tokens
                assert stream is not None
                versions = stream.versions[stream.sampled]
                limit = {"tail_batching": UPDATES}.get(name, BOUND)
                assert update - 1 - versions.max() >= 0
                assert update - 1 - versions.min() <= limit
                if name in {"streaming", "relay"}:
                    assert len(set(versions.tolist())) == 1
