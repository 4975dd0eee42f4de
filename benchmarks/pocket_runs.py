"""Real training runs on the pocket tasks, small enough to repeat: the default run with fewer episodes.

The benchmarks of credit and of selection share these arms: with the same ``--output`` a run that both need is
made once.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import torch
from evidence import Curve, finished, keep
from rich.console import Console

from agentic_gym.config import StrictConfig
from agentic_gym.evaluation import make_launches
from agentic_gym.store import RunStore
from agentic_gym.trainers import checkpoints
from agentic_gym.trainers.assembly import CHECKPOINT_FOLDER, Assembly
from agentic_gym.trainers.run_config import EvalSection, TrainConfig
from agentic_gym.types import Outcome

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from train_swe import DEFAULT

NAME = "heldout_bugs"

PPO = {"credit": "outcome+token_gae", "ppo": {"gamma": 1.0, "gae_lambda": 1.0}}
GROUPS = {"credit": "outcome+group", "ppo": {"group_size": 4, "gamma": 1.0}}
MEASURED = {"train_options": {"process_state": True}}
SHORT = {"ppo": {"gae_lambda": 0.95}}
EVEN = {"selection": "uniform"}

ARMS: Mapping[str, Mapping[str, Any]] = {
    "outcome": {**PPO, **EVEN},
    "outcome, groups": {**GROUPS, **EVEN},
    "token GAE": {"credit": "token_gae", **SHORT, **EVEN},
    "turn GAE": {"credit": "turn_gae", **SHORT, **EVEN},
    "turn GAE, λ = 1": {"credit": "turn_gae", "ppo": {"gae_lambda": 1.0}, **EVEN},
    "process": {"credit": "process+turn_gae", "env": MEASURED, **SHORT, **EVEN},
    "attention": {"credit": "attention+turn_gae", **SHORT, **EVEN},
    "causal attention": {"credit": "causal_attention+turn_gae", **SHORT, **EVEN},
    "band": {"credit": "turn_gae", **SHORT, "selection": "band"},
    "band, diversity": {"credit": "turn_gae", **SHORT, "selection": "band+diversity"},
    "refill, groups": {**GROUPS, "ppo": {**GROUPS["ppo"], "refill": 8}, **EVEN},
}
"""Keys of the default run that an arm changes; whatever it compares is said in each.

All have the run's rewards. "outcome" moves them to the end of the episode, undiscounted.
"""
START = "at the start"


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Flags that size the runs."""
    parser.add_argument("--quick", action="store_true", help="one seed of little")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--updates", type=int, default=9)
    parser.add_argument("--episodes", type=int, default=32, help="of an update")
    parser.add_argument("--every", type=int, default=3, help="updates between evaluations")
    parser.add_argument("--tasks", type=int, default=60, help="evaluated")
    parser.add_argument("--jobs", type=int, default=1, help="runs at once, a core each")
    parser.add_argument(
        "--output", type=Path, help="curves (JSONL); what is there is not run again"
    )


def shrink(options: argparse.Namespace) -> None:
    """Sizes of ``--quick``."""
    options.seeds = 1
    options.updates, options.episodes, options.every, options.tasks = 1, 8, 1, 4


def pocket_curves(
    names: Sequence[str], options: argparse.Namespace, console: Console
) -> dict[str, list[Curve]]:
    """Runs arms, seed by seed, and prints each curve as it comes.

    Args:
        names: of :data:`ARMS`.
        options: what :func:`add_flags` has read.
        console: to print on.

    Returns:
        Curves by arm, one a seed.
    """
    known = finished(options.output)
    sizes = {name: getattr(options, name) for name in ("updates", "episodes", "every", "tasks")}
    spawn = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(options.jobs, mp_context=spawn, max_tasks_per_child=1)
    with pool:
        running: dict[Future[tuple[Curve, int]], str] = {}
        for seed in range(options.seeds):
            # The start is the same for all arms.
            for name in (START, *names):
                key = f"pocket/{name}/{seed}"
                if key not in known:
                    running[pool.submit(_alone, name, seed=seed, **sizes)] = key
        for future in as_completed(running):
            key = running[future]
            known[key], played = future.result()
            keep(options.output, key, known[key], played=played)
            console.print(
                f"{key}: {[round(y, 3) for _, y in known[key]]}, {played} episodes played"
            )
    seeds = range(options.seeds)
    return {
        name: [known[f"pocket/{START}/{seed}"] + known[f"pocket/{name}/{seed}"] for seed in seeds]
        for name in names
    }


def _alone(name: str, **sizes: Any) -> tuple[Curve, int]:
    """One run, in a process of its own."""
    torch.set_num_threads(1)
    if name == START:
        return pocket_curve(DEFAULT, {}, **{**sizes, "updates": 0})
    return pocket_curve(DEFAULT, ARMS[name], **sizes)


def changed(section: Any, values: Mapping[str, Any]) -> Any:
    """A section with some keys changed, nested ones too."""
    if not isinstance(section, StrictConfig):
        both = isinstance(section, Mapping) and isinstance(values, Mapping)
        return {**section, **values} if both else values
    update = {
        key: changed(getattr(section, key), value) if isinstance(value, Mapping) else value
        for key, value in values.items()
    }
    return section.model_copy(update=update)


def pocket_curve(
    default: TrainConfig,
    arm: Mapping[str, Any],
    *,
    seed: int,
    updates: int,
    episodes: int,
    every: int,
    tasks: int,
) -> tuple[Curve, int]:
    """Success on held-out bugs after trained episodes, and how many were played for them.

    Args:
        default: the run that is varied.
        arm: keys that differ.
        seed: of the run, and of its evaluations.
        updates: of the run; 0 for the success before it alone.
        episodes: of an update.
        every: updates between two evaluations.
        tasks: evaluated, once each, sampled.
    """
    common: dict[str, Any] = {
        "seed": seed,
        "baselines": {},
        "evaluations": {
            NAME: EvalSection(options={"split": NAME}, num_tasks=tasks, samples=1, greedy=False)
        },
        "ppo": {"updates": updates, "episodes_per_update": episodes, "save_every": every},
    }
    with tempfile.TemporaryDirectory() as folder:
        base = changed(default, {**common, "output_dir": Path(folder)})
        config: TrainConfig = changed(base, arm)
        # Every checkpoint is evaluated, not only the last.
        config = changed(config, {"ppo": {"extra": {"save_total_limit": None}}})
        with RunStore(folder) as store:
            console = Console(stderr=True, quiet=True)
            if not updates:
                return [(0.0, _success(config, store, console))], 0
            curve: Curve = []
            assembly = Assembly(config, store, console)
            try:
                assembly.prepare()
                assembly.train()
            finally:
                assembly.close()
            counts = store.counts()
            played = counts.trained + counts.buffered + sum(counts.dropped.values())
            for path in checkpoints.list_checkpoints(Path(folder) / CHECKPOINT_FOLDER):
                version = checkpoints.version_of(path)
                evaluated = changed(
                    config, {"model": str(path), "output_dir": Path(folder) / f"at-{version}"}
                )
                curve.append((float(version * episodes), _success(evaluated, store, console)))
    return sorted(curve), played


def _success(config: TrainConfig, store: RunStore, console: Console) -> float:
    """Success of the run's model on the held-out tasks."""
    with tempfile.TemporaryDirectory() as folder:
        own = changed(config, {"output_dir": Path(folder), "ppo": {"updates": 0}})
        assembly = Assembly(own, store, console)
        try:
            assembly.prepare()
            launches = make_launches(assembly.eval_tasks(NAME), seed=config.seed, name="curve")
            section = config.evaluations[NAME]
            with assembly.policy_rollout(section.options, greedy=False) as rollout:
                played = rollout.collect(launches, progress=False)
        finally:
            assembly.close()
    counted = [t.outcome for t in played if t.outcome is not Outcome.INFRA_ERROR]
    return sum(outcome is Outcome.SOLVED for outcome in counted) / len(counted)
