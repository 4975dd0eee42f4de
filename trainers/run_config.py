"""Configuration of a whole training run: what ``agentic-gym train`` and ``examples/train_swe.py`` read.

Environments are named, never imported: by id and options, so that any registered environment trains.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from agentic_gym.config import ReadWhen, StrictConfig
from agentic_gym.errors import ConfigError
from agentic_gym.trainers.schedules.base import Schedule
from agentic_gym.trainers.schedules.registry import make_schedule
from agentic_gym.trainers.selection.filters import FilterSection
from agentic_gym.trainers.warm_start import WarmStartConfig

_GIVEN = {
    "batch_size": "ppo.episodes_per_update",
    "group_size": "ppo.group_size",
    "concurrency": "rollout.concurrency",
    "max_concurrent": "rollout.concurrency",
    "replicas": "rollout.replicas",
    "stage": "ppo.stream",
}
Positive = Annotated[int, Field(gt=0)]
Rate = Annotated[float, Field(gt=0)]


class EnvSection(StrictConfig):
    """Which environment, and how episodes end.

    Attributes:
        id: a registered id.
        options: passed to the environment for every use.
        train_options: further options of the environment that trains.
        max_turns: turn limit of an episode.
        goal_reminder_turns: re-state the task every so many turns; 0 for never.
    """

    id: str = "agentic_gym/SWE-v0"
    options: dict[str, Any] = Field(default_factory=dict)
    train_options: dict[str, Any] = Field(default_factory=dict)
    max_turns: Positive = 10
    goal_reminder_turns: Annotated[int, Field(ge=0)] = 0


class ShapeSection(StrictConfig):
    """Shape of a decoder made from scratch; see ``trainers.models.DecoderShape``."""

    hidden: Positive = 192
    layers: Positive = 4
    heads: Positive = 6
    kv_heads: Positive = 3
    head_dim: Positive = 32
    intermediate: Positive = 512
    vocab_size: Positive = 1024


class DemonstrationSection(StrictConfig):
    """Where demonstrations come from; no warm start if neither ``policy`` nor ``runs`` is given.

    Attributes:
        policy: import path ``module:function``; called with the training environment, it returns a
            function that makes a demonstrator.
        runs: folders of training runs, of ``agentic-gym eval`` or of ``agentic-gym tasks profile``, by a
            smaller model say; what was solved there is demonstrated (docs/selection.md).
        band: of ``runs``: lowest and highest share of a task's tries that solved it. 0.2 0.8 leaves out
            what is always solved, or hardly ever.
        per_task: most episodes a task, of ``policy`` and of ``runs`` each.
        max_tasks: tasks that are demonstrated (the first of a seeded order, with ``runs`` of those that can
            be), by each; 0 for all.
    """

    policy: str = ""
    runs: list[str] = Field(default_factory=list)
    band: tuple[float, float] = (0.0, 1.0)
    per_task: Positive = 2
    max_tasks: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="after")
    def _refuse_what_is_no_band(self) -> Self:
        low, high = self.band
        if not 0 <= low <= high <= 1:
            raise ValueError(
                f"band={self.band} is no band of shares: give its lowest and highest, from 0 to 1, for "
                "instance 0.2 0.8"
            )
        if not self.runs and self.band != type(self).model_fields["band"].default:
            raise ValueError(
                f"band={self.band} is not read without runs: give demonstrations.runs as well, or leave "
                "it out"
            )
        return self


class RolloutSection(StrictConfig):
    """How episodes are played.

    Attributes:
        concurrency: episodes at once.
        temperature: of sampling.
        max_tokens_per_turn: limit of one completion.
        max_tokens_per_episode: limit of a whole episode, prompts and observations included.
        episode_limit_s: wall-clock limit of an episode.
        engine_threads: CPU threads of the engine; 0 leaves it to torch. One is right where sandboxes share
            the cores: threads that wait for each other on a busy core are slower than one alone.
        show_tools: put the tools' schemas into the prompt.
        replicas: of the engine, each with its own copy of the weights; they share ``concurrency``.
        relays: of weights: so many processes, each on what would be a node, hand new weights from one to the
            next, and replica r loads from relay r % relays. 0: replicas take them from the trainer's memory,
            which is right where all are in one process.
        relay_heartbeat_s: seconds between two signs of life of a relay; four missed ones are its death.
        longest_first: play those first that are predicted to take longest (from the task's history).
        stall_timeout_s: seconds without any turn, result or update after which the run ends with a report of
            who waits for whom.
    """

    concurrency: Positive = 32
    temperature: Rate = 1.0
    max_tokens_per_turn: Positive = 224
    max_tokens_per_episode: Positive = 1792
    episode_limit_s: Rate = 120.0
    engine_threads: Annotated[int, Field(ge=0)] = 1
    show_tools: bool = True
    replicas: Positive = 1
    relays: Annotated[int, Field(ge=0)] = 0
    relay_heartbeat_s: Annotated[float, Field(gt=0, le=2)] = 0.2
    longest_first: bool = False
    stall_timeout_s: Rate = 900.0

    @model_validator(mode="after")
    def _refuse_idle_relays(self) -> Self:
        if self.relays > self.replicas:
            raise ValueError(
                f"relays={self.relays} are more than replicas={self.replicas}: no replica would load "
                "from the last of them; give at most one a replica"
            )
        usual = type(self).model_fields["relay_heartbeat_s"].default
        if not self.relays and self.relay_heartbeat_s != usual:
            raise ValueError(
                f"relay_heartbeat_s={self.relay_heartbeat_s:g} is not read without relays: give "
                "rollout.relays as well, or leave it out"
            )
        return self


class PPOSection(StrictConfig):
    """Settings of PPO; names and meanings are those of ``AgenticPPOConfig``.

    Attributes:
        updates: number of updates; 0 leaves PPO out: warm start and evaluations only.
        episodes_per_update: trajectories of a batch.
        group_size: episodes of one task in a batch.
        refill: refuse finished groups whose rewards are all equal and play others in their place, at most so
            many in a row (DAPO's dynamic sampling); 0 for never. Only for credit without a value head, which
            would learn a wrong mean.
        stream: begin with the gradients of a batch while its last episodes are played (schedules that
            wait for the longest episode: "sync", "tail_batching", or a "plan" that uses them).
        extra: any other field of ``AgenticPPOConfig``.
    """

    updates: Annotated[int, Field(ge=0)] = 24
    episodes_per_update: Positive = 64
    group_size: Positive = 4
    learning_rate: Rate = 2.5e-4
    value_learning_rate: Rate = 3e-3
    ppo_epochs: Positive = 2
    minibatch_size: Positive = 32
    gamma: Annotated[float, Field(ge=0, le=1)] = 1.0
    gae_lambda: Annotated[float, Field(ge=0, le=1)] = 1.0
    entropy_coef: float = 0.0
    kl_coef: float = 0.0
    target_kl: Rate | None = 0.1
    value_warmup_updates: Annotated[int, Field(ge=0)] = 1
    ramp_updates: Annotated[int, Field(ge=0)] = 0
    lora_rank: Annotated[int, Field(ge=0)] = 0
    save_every: Positive = 8
    report_to: list[str] = Field(default_factory=list)
    refill: Annotated[int, Field(ge=0)] = 0
    stream: bool = False
    extra: dict[str, Any] = Field(default_factory=dict)


class EvalSection(StrictConfig):
    """One evaluation, before and after training.

    Attributes:
        options: of the environment (a split, for instance).
        num_tasks: tasks (the first of a seeded order); 0 for all.
        samples: episodes a task, sampled at the temperature of training.
        greedy: also one episode a task at temperature 0.
    """

    options: dict[str, Any] = Field(default_factory=dict)
    num_tasks: Annotated[int, Field(ge=0)] = 0
    samples: Positive = 2
    greedy: bool = True


class TrainConfig(StrictConfig):
    """A whole run.

    Attributes:
        output_dir: the run folder.
        name: in the report.
        seed: of everything.
        model: "starter" (bundled), "scratch" (made new), or a folder or name of a causal LM.
        shape: of a model made from scratch.
        schedule: which episodes are launched, interrupted and trained when: "sync", "tail_batching",
            "bounded_async", "streaming", "relay" or "plan" (docs/schedules.md).
        schedule_options: of the schedule.
        credit: which decisions of an episode get its reward: parts joined by ``+`` (docs/credit.md). One
            may say how advantages are estimated: "turn_gae" (if none does), "token_gae", "group", "gigpo".
        credit_options: of each part, by its name.
        rewards: weights of custom rewards, by name or import path, added to the environment's.
        selection: which tasks are played: "uniform", "band", "curriculum", each also with "+diversity"
            (docs/selection.md).
        selection_options: of the selection.
        filters: trajectories that are dropped instead of trained.
        evaluations: by name.
        baselines: agents evaluated beside, by name: import path ``module:function``. Called with an
            environment of the evaluation, the function returns one that makes the agent of a launch.
        baseline_tasks: tasks of each evaluation that a baseline plays, once each; 0 for all.
    """

    output_dir: Path = Path("runs/train")
    name: str = "train"
    seed: Annotated[int, Field(ge=0)] = 0
    model: str = "starter"
    env: EnvSection = EnvSection()
    shape: Annotated[ShapeSection, ReadWhen("model", ("scratch",))] = ShapeSection()
    demonstrations: DemonstrationSection = DemonstrationSection()
    warm_start: WarmStartConfig = WarmStartConfig()
    rollout: RolloutSection = RolloutSection()
    ppo: PPOSection = PPOSection()
    schedule: str = "sync"
    schedule_options: dict[str, Any] = Field(default_factory=dict)
    credit: str = "turn_gae"
    credit_options: dict[str, dict[str, Any]] = Field(default_factory=dict)
    rewards: dict[str, float] = Field(default_factory=dict)
    selection: str = "uniform"
    selection_options: dict[str, Any] = Field(default_factory=dict)
    filters: FilterSection = FilterSection()
    evaluations: dict[str, EvalSection] = Field(default_factory=dict)
    baselines: dict[str, str] = Field(default_factory=dict)
    baseline_tasks: Annotated[int, Field(ge=0)] = 0


def schedule_of(config: TrainConfig) -> Schedule:
    """The run's schedule, new.

    Raises:
        ConfigError: there is none of that name, or its options are wrong.
    """
    for name, key in _GIVEN.items():
        if name in config.schedule_options:
            raise ConfigError(f"schedule_options sets {name!r}, which the run says in {key}")
    return make_schedule(
        config.schedule,
        batch_size=config.ppo.episodes_per_update,
        group_size=config.ppo.group_size,
        concurrency=config.rollout.concurrency,
        replicas=config.rollout.replicas,
        stage=config.ppo.stream,
        **config.schedule_options,
    )


def import_object(path: str) -> Any:
    """Imports ``module:name``.

    Raises:
        ConfigError: the path is malformed, or there is no such module or name.
    """
    module_name, _, name = path.partition(":")
    if not module_name or not name:
        raise ConfigError(f"{path!r} is not an import path: write module:name")
    try:
        return getattr(importlib.import_module(module_name), name)
    except ImportError as error:
        raise ConfigError(f"{path!r} cannot be imported: {error}") from error
    except AttributeError as error:
        raise ConfigError(f"{module_name} has no {name!r}") from error
