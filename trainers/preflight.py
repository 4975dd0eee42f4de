"""``--dry-run``: everything that a run needs, tried once, before it starts.

The longest sequence, the sandbox and the grader, one weight sync and one optimiser step happen in a
temporary folder; nothing of the run itself is touched. What fails here would have failed after an hour.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
from rich.console import Console

from agentic_gym.config import StrictConfig
from agentic_gym.errors import ConfigError, InfraError, UserError
from agentic_gym.evaluation import make_launches
from agentic_gym.folders import check_folder
from agentic_gym.rewards.credit.base import CreditAssigner, CreditBatch, Floats, batch_of
from agentic_gym.rewards.credit.outcome import earned
from agentic_gym.store import RunStore
from agentic_gym.trainers.assembly import Assembly, train_facts
from agentic_gym.trainers.explored import explore
from agentic_gym.trainers.learning import credit_of, rubric_of, selector_of
from agentic_gym.trainers.models import check_source
from agentic_gym.trainers.ppo_args import ppo_args
from agentic_gym.trainers.publisher import WeightPublisher
from agentic_gym.trainers.run_config import TrainConfig, import_object, schedule_of
from agentic_gym.trainers.simulation.advice import RUN_DRY
from agentic_gym.trainers.source import RecordedSource
from agentic_gym.types import Outcome, TokenStream, Trajectory, Turn

C = TypeVar("C", bound=StrictConfig)


def preflight(config: TrainConfig, *, console: Console | None = None) -> None:
    """Tries a run out.

    Args:
        config: of the run.
        console: where each step is reported.

    Raises:
        AgenticGymError: what would have stopped the run.
    """
    console = console or Console(stderr=True)
    _try(console, "output folder", lambda: check_folder(config.output_dir, "output_dir"))
    _try(console, f"schedule {config.schedule}", lambda: schedule_of(config))
    if config.schedule in RUN_DRY and config.rollout.replicas == 1:
        console.print(
            f"  note  {config.schedule} works with one replica, but loads new weights only when all its "
            "episodes are finished: rollout.replicas of 2 or more go on meanwhile"
        )
    if config.ppo.updates:
        _try(console, "settings of PPO", lambda: ppo_args(config, config.output_dir))
    check_source(config.model)
    folder = Path(tempfile.mkdtemp(prefix="agentic-gym-preflight-"))
    small = _small(config, folder)
    try:
        with RunStore(folder) as store:
            assembly = Assembly(small, store, console)
            try:
                _try(console, "tasks", lambda: _check_tasks(assembly, small, console))
                if config.demonstrations.runs:
                    _try(
                        console,
                        "demonstrations to be had",
                        lambda: _check_explored(assembly, config, console),
                    )
                _try(console, "policy and engine", assembly.prepare)
                _try(console, "episodes, sandbox and grader", lambda: _play(assembly, small))
                if config.ppo.updates == 0:
                    console.print(
                        "  note  no update is tried: ppo.updates is 0, so PPO is left out"
                    )
                else:
                    _try(
                        console,
                        "longest sequence, optimiser step, weight sync",
                        lambda: _learn(assembly, small),
                    )
            finally:
                assembly.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    console.print("[green]ready[/green]: nothing was written")


def _small(config: TrainConfig, folder: Path) -> TrainConfig:
    """The same run with as little of everything as tries every part."""
    few = config.demonstrations.model_copy(update={"per_task": 1, "max_tasks": 4})
    return _with(
        config,
        output_dir=folder,
        demonstrations=few,
        warm_start=_with(config.warm_start, epochs=1.0),
        # No warm-up of the value head: it would spare the policy's backward pass, the largest of all.
        ppo=_with(config.ppo, updates=1, report_to=[], value_warmup_updates=0),
    )


def _with(config: C, **changes: object) -> C:
    return config.model_copy(update=changes)


def _try(console: Console, what: str, attempt: Callable[[], object]) -> None:
    began = time.perf_counter()
    attempt()
    console.print(f"  ok  {what} ({time.perf_counter() - began:.1f} s)")


def _check_tasks(assembly: Assembly, config: TrainConfig, console: Console) -> None:
    """Every split has tasks and every baseline exists; says where what is evaluated is trained too."""
    train = set(assembly.train_tasks())
    if not train:
        raise ConfigError("the training environment has no task")
    for path in config.baselines.values():
        import_object(path)
    for name in config.evaluations:
        tasks = assembly.eval_tasks(name)
        if not tasks:
            raise ConfigError(f"evaluation {name!r} has no task: check evaluations.{name}.options")
        shared = train & set(tasks)
        if shared:
            console.print(
                f"  note  evaluation {name!r} has {len(shared)} tasks that train too: it says how well "
                "they are learned, not how well that carries over"
            )


def _check_explored(assembly: Assembly, config: TrainConfig, console: Console) -> None:
    """Says what the whole run would choose; what follows replays a few of it."""
    choice = explore(config.demonstrations, assembly.train_tasks())
    names = ", ".join(config.demonstrations.runs)
    console.print(
        f"  note  demonstrations from {names}: {choice.told()}. A few of them are tried now",
        soft_wrap=True,
    )


def _play(assembly: Assembly, config: TrainConfig) -> None:
    """A few episodes; what breaks in one is raised."""
    launches = make_launches(assembly.train_tasks()[:4], seed=config.seed, name="preflight")
    with assembly.policy_rollout(config.env.train_options, greedy=False) as rollout:
        played = rollout.collect(launches, progress=False)
    for trajectory in played:
        if trajectory.outcome is Outcome.INFRA_ERROR:
            raise InfraError(f"{trajectory.task_id} could not be played: {trajectory.error}")
    selector_of(config, train_facts(config)).next_task()
    if (rubric := rubric_of(config)) is not None:
        rubric.check(played)
    if config.ppo.updates:
        _check_credit(config, played)


def _check_credit(config: TrainConfig, played: Sequence[Trajectory]) -> None:
    """Gives credit to a few real episodes, as far as it needs no attention of the policy."""
    plan, batch = credit_of(config), batch_of(played, gamma=config.ppo.gamma)
    rewards = earned(batch)
    for assigner in plan.assigners:
        if not assigner.needs_attention:
            rewards = assigned(assigner, batch, rewards)
    missing = batch.facts.get("process_missing", 0.0)
    if missing == len(played):
        raise ConfigError(
            f"credit={config.credit!r} reads info['state'] of each turn, and no episode of "
            f"{config.env.id} has it"
        )


def assigned(assigner: CreditAssigner, batch: CreditBatch, rewards: Floats) -> Floats:
    """What an assigner, which may be the user's own, makes of rewards.

    Raises:
        ConfigError: it raises, or its answer has another shape or is not finite.
    """
    name = type(assigner).__name__
    try:
        found = np.asarray(assigner.assign(batch, rewards))
    except UserError:
        raise
    except Exception as error:
        raise ConfigError(
            f"credit part {name} broke on {len(batch.parts)} episodes: {type(error).__name__}: {error}"
        ) from error
    if found.shape != rewards.shape:
        raise ConfigError(
            f"credit part {name} gave rewards of shape {found.shape} for {len(rewards)} sampled tokens"
        )
    if bad := int((~np.isfinite(found)).sum()):
        raise ConfigError(
            f"credit part {name} gave {bad} rewards of {found.size} that are not finite"
        )
    return found


def _learn(assembly: Assembly, config: TrainConfig) -> None:
    """One update on the longest sequences that may come, and its weights in the engine."""
    length = config.rollout.max_tokens_per_episode
    source = RecordedSource([[_longest(length, reward) for reward in (0.0, 1.0)]])
    trainer = assembly.make_trainer(source, config.output_dir / "checkpoints")
    trainer.train()
    publisher = WeightPublisher(temperature=config.rollout.temperature)
    references = publisher.references(trainer.policy, trainer.version)
    weights, engine = trainer.policy.weights(), assembly.engine
    for number in engine.versions:
        asyncio.run(publisher.publish(engine.replica(number), weights, trainer.version, references))


def _longest(length: int, reward: float) -> Trajectory:
    """A trajectory of ``length`` tokens, half of them sampled.

    With another reward it has other tokens, or the gradients of the two would cancel.
    """
    half = length // 2
    sampled = np.arange(length) >= half
    return Trajectory(
        trajectory_id=f"longest-{reward}",
        task_id="longest",
        group_id="longest",
        seed=0,
        prompt="",
        turns=(Turn("", "", reward),),
        tokens=TokenStream(
            ids=np.full(length, int(reward), np.int32),
            sampled=sampled,
            logprobs=np.where(sampled, np.float32(-1.0), np.float32(0.0)),
            versions=np.where(sampled, 0, -1).astype(np.int32),
            turns=np.where(sampled, 0, -1).astype(np.int32),
        ),
        outcome=Outcome.SOLVED if reward else Outcome.FAILED,
        terminated=True,
        truncated=False,
    )
