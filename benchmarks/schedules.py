"""Trained episodes per second of every schedule against ``sync``: real runs, side by side.

The default run of ``examples/train_swe.py`` (pocket tasks, bubblewrap, the starter, PPO) with a long-tailed
latency added to each step: lognormal with σ = 1, so that one in a hundred takes ten times the median. Every
schedule gets the same seeds, slots and updates. The first update is not timed: schedules that overlap have
nothing to overlap with yet. Held-out bugs are evaluated after the last, without the latency.

    python benchmarks/schedules.py            # three repetitions, about an hour on two cores
    python benchmarks/schedules.py --quick    # one repetition of less
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import platform
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from train_swe import DEFAULT

import agentic_gym
from agentic_gym.envs.swe.env import SWEEnv
from agentic_gym.evaluation import make_launches, percent, success_difference
from agentic_gym.store import RunStore
from agentic_gym.trainers.assembly import Assembly
from agentic_gym.trainers.run_config import TrainConfig
from agentic_gym.types import Outcome, Trajectory

SLOW = "benchmarks/SWE-slow-tools-v0"
SIGMA = 1.0
SCHEDULES: dict[str, tuple[int, dict[str, Any]]] = {
    "sync": (1, {}),
    "tail_batching": (1, {"prompt_redundancy": 1.25}),
    "bounded_async": (1, {"max_staleness": 2}),
    "streaming": (2, {"window": 2}),
    "relay": (2, {"max_staleness": 2}),
}
"""Replicas of the engine, and options."""
TARGETS = {"tail_batching": 1.5, "bounded_async": 2.0, "streaming": 1.8, "relay": 1.8}


class SlowToolsEnv(SWEEnv):
    """The environment, with tools that take their time.

    Args:
        latency_s: median of what is added to a step.
        options: of the environment.
    """

    def __init__(self, *, latency_s: float = 1.5, **options: Any) -> None:
        super().__init__(**options)
        self._median = latency_s
        self._random = random.Random(0)

    def reset(self, *, seed: int | None = None, **options: Any) -> Any:
        """The latencies of an episode are fixed by its seed."""
        self._random = random.Random(seed)
        return super().reset(seed=seed, **options)

    def step(self, action: str) -> Any:
        """Waits first."""
        time.sleep(min(self._median * self._random.lognormvariate(0.0, SIGMA), 30 * self._median))
        return super().step(action)


def configure(options: argparse.Namespace, name: str, seed: int, folder: Path) -> TrainConfig:
    """The default run, smaller, with slow tools and this schedule."""
    replicas, own = SCHEDULES[name]
    env = DEFAULT.env.model_copy(
        update={
            "id": SLOW,
            "train_options": {**DEFAULT.env.train_options, "latency_s": options.latency},
        }
    )
    return DEFAULT.model_copy(
        update={
            "output_dir": folder,
            "seed": seed,
            "env": env,
            "baselines": {},
            "schedule": name,
            "schedule_options": own,
            "rollout": DEFAULT.rollout.model_copy(
                update={"replicas": replicas, "concurrency": options.slots}
            ),
            "ppo": DEFAULT.ppo.model_copy(
                update={
                    "updates": options.updates,
                    "episodes_per_update": options.batch,
                    "save_every": options.updates,
                }
            ),
        }
    )


def run(
    options: argparse.Namespace, name: str, seed: int
) -> tuple[dict[str, float], list[Trajectory]]:
    """One run; returns what is compared, and the episodes of its evaluation."""
    with tempfile.TemporaryDirectory() as folder:
        config = configure(options, name, seed, Path(folder))
        with RunStore(folder) as store:
            assembly = Assembly(config, store, Console(stderr=True, quiet=True))
            finished: list[float] = []
            try:
                assembly.prepare()
                assembly.train(on_update=lambda: finished.append(time.perf_counter()))
                played = evaluate(assembly, config, options)
            finally:
                assembly.close()
            counts = store.check_conservation()
            found = {
                metric: [value for _, value in store.metrics(metric)]
                for metric in (
                    "staleness", "staleness_max", "trainer_idle_share", "parked_share",
                    "engine_idle_share",
                )
            }  # fmt: skip
    counted = [t for t in played if t.outcome is not Outcome.INFRA_ERROR]
    seconds = (finished[-1] - finished[0]) / (len(finished) - 1)
    result = {
        "episodes_per_s": options.batch / seconds,
        "updates_per_hour": 3600 / seconds,
        "solved": sum(t.outcome is Outcome.SOLVED for t in counted) / len(counted),
        "dropped": float(sum(counts.dropped.values())),
        **{key: sum(v) / len(v) for key, v in found.items() if v},
        "staleness_max": max(found["staleness_max"]),
    }
    return result, played


def evaluate(
    assembly: Assembly, config: TrainConfig, options: argparse.Namespace
) -> list[Trajectory]:
    """One sampled episode of each held-out bug."""
    tasks = assembly.eval_tasks("heldout_bugs")[: options.tasks or None]
    section = config.evaluations["heldout_bugs"].options
    with assembly.policy_rollout({**section, "latency_s": 1e-6}, greedy=False) as rollout:
        return rollout.collect(make_launches(tasks, seed=0, name="after"), progress=False)


def main() -> None:
    """Prints a row for each schedule."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one repetition of three updates")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--updates", type=int, default=5)
    parser.add_argument("--batch", type=int, default=32, help="episodes an update")
    parser.add_argument("--slots", type=int, default=32, help="episodes at once")
    parser.add_argument("--latency", type=float, default=1.5, help="median seconds a step")
    parser.add_argument("--tasks", type=int, default=0, help="held-out tasks; 0: all")
    parser.add_argument("--schedules", nargs="+", default=list(SCHEDULES), choices=list(SCHEDULES))
    parser.add_argument("--output", type=Path, help="append each run to this JSONL file")
    options = parser.parse_args()
    if options.quick:
        options.repeats, options.updates, options.tasks = 1, 3, 20
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    agentic_gym.register(SLOW, SlowToolsEnv)
    found: dict[str, list[dict[str, float]]] = {name: [] for name in options.schedules}
    played: dict[str, list[Trajectory]] = {name: [] for name in options.schedules}
    for seed in range(options.repeats):
        for name in options.schedules:
            result, episodes = run(options, name, seed)
            found[name].append(result)
            played[name] += episodes
            shown = ", ".join(f"{key} {value:.3g}" for key, value in result.items())
            print(f"{name}, seed {seed}: {shown}", flush=True)
            if options.output is not None:
                with options.output.open("a") as file:
                    file.write(json.dumps({"schedule": name, "seed": seed, **result}) + "\n")
    report(found, played, options)


def report(
    found: dict[str, list[dict[str, float]]],
    played: dict[str, list[Trajectory]],
    options: argparse.Namespace,
) -> None:
    """The table: ratios are paired by seed, differences by task."""
    print(f"\n{datetime.datetime.now(datetime.UTC):%Y-%m-%d}, {platform.machine()}, "
          f"torch {torch.__version__}, {os.cpu_count()} cores; {options.repeats} repetitions of "
          f"{options.updates} updates of {options.batch} episodes in {options.slots} slots, "
          f"latency {options.latency} s")  # fmt: skip
    columns = (
        "schedule", "episodes/s", "of sync", "target", "updates/h", "solved %", "against sync",
        "solved %/h", "stale mean", "max", "trainer idle", "parked",
    )  # fmt: skip
    table = Table(*columns)
    for name, runs in found.items():

        def mean(key: str, runs: list[dict[str, float]] = runs) -> float:
            return sum(run.get(key, 0.0) for run in runs) / len(runs)

        ratios = [
            own["episodes_per_s"] / base["episodes_per_s"]
            for own, base in zip(runs, found.get("sync", runs), strict=True)
        ]
        difference = success_difference(played.get("sync", played[name]), played[name])
        geometric = math.exp(sum(map(math.log, ratios)) / len(ratios))
        table.add_row(
            name,
            f"{mean('episodes_per_s'):.2f}",
            f"{geometric:.2f}x ({min(ratios):.2f} to {max(ratios):.2f})",
            f"{TARGETS.get(name, 1.0):.1f}x",
            f"{mean('updates_per_hour'):.0f}",
            f"{100 * mean('solved'):.0f}",
            percent(difference, signed=True),
            f"{100 * mean('solved') * mean('updates_per_hour') / options.updates:.0f}",
            f"{mean('staleness'):.2f}",
            f"{max(run['staleness_max'] for run in runs):.0f}",
            f"{100 * mean('trainer_idle_share'):.0f} %",
            f"{100 * mean('parked_share'):.0f} %",
        )
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
