"""Real training runs on the pocket tasks, small enough to repeat: the default run with fewer episodes."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evidence import Curve
from rich.console import Console

from agentic_gym.config import StrictConfig
from agentic_gym.evaluation import make_launches
from agentic_gym.store import RunStore
from agentic_gym.trainers import checkpoints
from agentic_gym.trainers.assembly import CHECKPOINT_FOLDER, Assembly
from agentic_gym.trainers.run_config import EvalSection, TrainConfig
from agentic_gym.types import Outcome

NAME = "heldout_bugs"


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
    """Success on held-out bugs against trained episodes, and how many were played for them.

    Args:
        default: the run that is varied.
        arm: keys that differ.
        seed: of the run, and of its evaluations.
        updates: of the run.
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
            curve = [(0.0, _success(config, store, console))]
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
