"""``agentic-gym eval``: how often does an agent solve the tasks of a split?"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from os.path import exists  # Path.exists raises for some paths
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from agentic_gym.ablation import ReminderAblation, ablate_goal_reminder
from agentic_gym.agent import Agent, LMAgent, PolicyAgent
from agentic_gym.cli import Command
from agentic_gym.config import ReadWhen, StrictConfig, dump_config, load_config, read_yaml
from agentic_gym.env_thread import EnvFactory
from agentic_gym.envs.swe.baselines import BASELINES, make_baseline
from agentic_gym.envs.swe.settings import choose_backend, load
from agentic_gym.envs.swe.task import SWETask
from agentic_gym.errors import ConfigError, MissingDependency
from agentic_gym.evaluation import AgentFactory, EvalResult, evaluate
from agentic_gym.folders import make_folder
from agentic_gym.registration import make
from agentic_gym.rollout import Launch
from agentic_gym.store import RunStore
from agentic_gym.types import SamplingParams

Positive = Annotated[int, Field(gt=0)]

COMPACT: dict[str, Any] = {
    "tools": ["edit_lines", "undo", "submit"],
    "compact": True,
    "test_after_edit": True,
}
"""Options of the environment for small models: what the bundled starter was taught."""

RESULT = "eval.json"
_WRITTEN = ("config.yaml", "run.sqlite", "run.sqlite-wal", "run.sqlite-shm")


class PlayConfig(StrictConfig):
    """Who plays which tasks, and how.

    Attributes:
        agent: gold, noop, random, scripted, or the folder of a causal LM.
        tasks: a bundled set or a JSONL file.
        split: which split of it; empty for all.
        num_tasks: the first so many tasks; 0 for all.
        samples: episodes a task.
        seed: of the episodes.
        max_turns: turn limit of an episode.
        max_source_chars: keep the tasks whose source is as short; 0 for all.
        compact: short observations and few tools, for small models.
        backend: which sandbox.
        allow_unsafe: run agents' code in plain subprocesses; the backend ``unsafe`` asks for it.
        sandboxes: sandboxes shared by all episodes; needs ``compact``.
        concurrency: episodes at once.
        temperature: of a language model; 0 is greedy. Refused, as the next two, for agents that do not
            sample.
        max_tokens_per_turn: of a language model.
        max_tokens_per_episode: of a language model.
        output_dir: where results, trajectories and settings go.
    """

    agent: str
    tasks: str = "pocket"
    split: str = "heldout_bugs"
    num_tasks: Annotated[int, Field(ge=0)] = 0
    samples: Positive = 1
    seed: int = 0
    max_turns: Positive = 10
    max_source_chars: Annotated[int, Field(ge=0)] = 0
    compact: bool = True
    backend: str = "auto"
    allow_unsafe: Annotated[bool, ReadWhen("backend", ("unsafe",))] = False
    sandboxes: Annotated[Positive, ReadWhen("compact", (True,))] = 2
    concurrency: Positive = 16
    temperature: Annotated[float, Field(ge=0)] = 1.0
    max_tokens_per_turn: Positive = 224
    max_tokens_per_episode: Positive = 1792
    output_dir: Path | None = None

    @model_validator(mode="after")
    def _refuse_what_baselines_ignore(self) -> Self:
        for name in ("temperature", "max_tokens_per_turn", "max_tokens_per_episode"):
            value = getattr(self, name)
            if self.agent in BASELINES and value != type(self).model_fields[name].default:
                raise ValueError(
                    f"{name}={value} is read only when a language model acts, and agent is "
                    f"{self.agent!r}: remove {name}, or give the folder of a model as the agent"
                )
        return self


class EvalConfig(PlayConfig):
    """Settings of an evaluation.

    Attributes:
        ablate_goal_reminder: play everything twice, the second time with the task re-stated every so many
            turns, and compare; 0 for one plain evaluation.
        output_dir: where ``eval.json``, the trajectories and the settings go.
    """

    ablate_goal_reminder: Annotated[int, Field(ge=0)] = 0
    output_dir: Path | None = None

    @model_validator(mode="after")
    def _refuse_reminders_that_come_too_late(self) -> Self:
        if self.ablate_goal_reminder >= self.max_turns:
            raise ValueError(
                f"ablate_goal_reminder={self.ablate_goal_reminder} must be below "
                f"max_turns={self.max_turns}: no episode would see a reminder"
            )
        return self


def check_eval(config: EvalConfig) -> Sequence[SWETask]:
    """The tasks of an evaluation whose settings have all been looked at; loads no model, writes nothing.

    Raises:
        ConfigError: see :func:`check_players`; or the output folder is taken.
        TaskError: the tasks cannot be loaded.
        SandboxUnavailable: no backend works here.
    """
    tasks = check_players(config)
    if config.output_dir is not None:
        _refuse_taken(config.output_dir)
    return tasks


def check_players(config: PlayConfig) -> Sequence[SWETask]:
    """The tasks to play, once it is known that agent and sandboxes could be made.

    Raises:
        ConfigError: the agent is neither a baseline nor the folder of a model, or the backend is unknown.
        TaskError: the tasks cannot be loaded.
        SandboxUnavailable: no backend works here.
    """
    found = load(config.tasks, config.split or None, config.max_source_chars or None)
    if config.agent not in BASELINES and not _is_model(Path(config.agent)):
        raise ConfigError(
            f"agent={config.agent!r} is none of {', '.join(BASELINES)}, and no folder of a causal LM "
            "(written by save_pretrained) has that path"
        )
    choose_backend(config.backend, allow_unsafe=config.allow_unsafe)
    return found[: config.num_tasks or None]


def run_eval(config: EvalConfig) -> EvalResult:
    """Evaluates one agent; writes ``output_dir`` if it is given, and leaves nothing there if it fails.

    Raises:
        ConfigError: see :func:`check_eval`; or the output folder cannot be made.
        TaskError: the tasks cannot be loaded.
        SandboxUnavailable: no backend works here.
    """
    if config.ablate_goal_reminder:
        raise ConfigError(
            f"ablate_goal_reminder={config.ablate_goal_reminder} compares two evaluations of one agent: "
            "use `agentic-gym eval` or run_ablation for it, or remove it"
        )
    tasks = check_eval(config)
    with claimed(config) as store, players(config, tasks) as agents:
        result = evaluate(
            env_factory(config, tasks),
            agent_factory=agents,
            task_ids=[task.task_id for task in tasks],
            samples_per_task=config.samples,
            concurrency=config.concurrency,
            seed=config.seed,
            store=store,
            name="eval",
        )
    if config.output_dir is not None:
        (config.output_dir / RESULT).write_text(result.to_json())
    return result


def run_ablation(config: EvalConfig) -> ReminderAblation:
    """Evaluates one agent without and with reminders of the task, as ``ablate_goal_reminder`` says.

    Raises:
        ConfigError: see :func:`run_eval`; or ``ablate_goal_reminder`` is 0.
        TaskError: the tasks cannot be loaded.
        SandboxUnavailable: no backend works here.
    """
    if not config.ablate_goal_reminder:
        raise ConfigError("ablate_goal_reminder=0 compares nothing: give turns between reminders")
    tasks = check_eval(config)
    with claimed(config) as store, players(config, tasks) as agents:
        ablation = ablate_goal_reminder(
            env_factory(config, tasks),
            agents,
            every=config.ablate_goal_reminder,
            task_ids=[task.task_id for task in tasks],
            samples_per_task=config.samples,
            concurrency=config.concurrency,
            seed=config.seed,
            store=store,
        )
    if config.output_dir is not None:
        (config.output_dir / RESULT).write_text(ablation.to_json())
    return ablation


def env_factory(config: PlayConfig, tasks: Sequence[SWETask]) -> EnvFactory:
    """Makes environments with these tasks, as an evaluation's settings say."""
    options: dict[str, Any] = {"backend": config.backend, "allow_unsafe": config.allow_unsafe}
    if config.compact:
        options |= COMPACT | {"sandboxes": config.sandboxes}
    return lambda: make(
        "agentic_gym/SWE-v0", tasks=tasks, split=None, max_turns=config.max_turns, **options
    )


def _is_model(folder: Path) -> bool:
    return any(exists(folder / name) for name in ("config.json", "adapter_config.json"))


def _refuse_taken(folder: Path) -> None:
    if not any(exists(folder / name) for name in (RESULT, *_WRITTEN)):
        return
    unfinished = ""
    with suppress(ConfigError):
        if not exists(folder / RESULT):
            read_yaml(EvalConfig, folder / "config.yaml")
            unfinished = ", an evaluation that has no result (remove the folder if it was killed)"
    raise ConfigError(f"{folder} already holds a run{unfinished}: give another output_dir")


@contextmanager
def claimed(config: PlayConfig) -> Iterator[RunStore | None]:
    """The store in the output folder; what was made is removed again if no episode came to be kept."""
    folder = config.output_dir
    if folder is None:
        yield None
        return
    new = [place for place in (folder, *folder.parents) if not exists(place)]
    kept = False
    try:
        make_folder(folder, "output_dir")
        dump_config(config, folder / "config.yaml")
        with RunStore(folder) as store:
            try:
                yield store
                kept = True
            finally:
                kept = kept or bool(store.evals() or store.counts().buffered)
    finally:
        if not kept:
            _remove(folder, new)


def _remove(folder: Path, new: Sequence[Path]) -> None:
    for name in _WRITTEN:
        with suppress(OSError, ValueError):  # what cannot be removed must not hide why
            (folder / name).unlink(missing_ok=True)
    for place in new:
        with suppress(OSError, ValueError):
            place.rmdir()


@contextmanager
def players(config: PlayConfig, tasks: Sequence[SWETask]) -> Iterator[AgentFactory]:
    """Makes agents for the episodes: of a baseline, or of a language model in an engine."""
    if config.agent in BASELINES:
        by_id = {task.task_id: task for task in tasks}
        yield lambda launch: PolicyAgent(make_baseline(config.agent), task=by_id[launch.task_id])
        return
    try:
        from agentic_gym.chat import ChatCodec
        from agentic_gym.engines.transformers import TransformersEngine
    except ImportError as error:
        raise MissingDependency("agentic-gym[train]", "language models as agents") from error
    codec = ChatCodec.from_pretrained(config.agent, show_tools=not config.compact)
    engine = TransformersEngine.from_pretrained(
        config.agent, max_batch=config.concurrency, max_context=config.max_tokens_per_episode
    )
    sampling = SamplingParams(config.max_tokens_per_turn, temperature=config.temperature)

    def agent(launch: Launch) -> Agent:
        return LMAgent(
            engine, codec, sampling, max_tokens_per_episode=config.max_tokens_per_episode
        )

    try:
        yield agent
    finally:
        asyncio.run(engine.close())


def run(argv: list[str]) -> int:
    """Runs the command."""
    config = load_config(EvalConfig, argv, prog="agentic-gym eval")
    if config.ablate_goal_reminder:
        print(run_ablation(config).render(config.agent), end="")
        return 0
    result = run_eval(config)
    print(result.render(config.agent), end="")
    if config.output_dir is not None:
        success = result.to_dict()["success"]["value"]
        print(json.dumps({"output_dir": str(config.output_dir), "success": success}, indent=2))
    return 0


EVAL = Command("eval", "evaluate an agent on the tasks of a split", run)
