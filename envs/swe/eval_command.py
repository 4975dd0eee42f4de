"""``agentic-gym eval``: how often does an agent solve the tasks of a split?"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from agentic_gym.agent import Agent, LMAgent, PolicyAgent
from agentic_gym.cli import Command
from agentic_gym.config import ReadWhen, StrictConfig, dump_config, load_config
from agentic_gym.envs.swe.baselines import BASELINES, make_baseline
from agentic_gym.envs.swe.settings import load
from agentic_gym.envs.swe.task import SWETask
from agentic_gym.errors import ConfigError, MissingDependency
from agentic_gym.evaluation import AgentFactory, EvalResult, evaluate, results_table
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


class EvalConfig(StrictConfig):
    """Settings of an evaluation.

    Attributes:
        agent: gold, noop, random, scripted, or the folder of a causal LM.
        tasks: a bundled set or a JSONL file.
        split: which split of it; empty for all.
        num_tasks: the first so many tasks; 0 for all.
        samples: episodes a task.
        seed: of the evaluation.
        max_turns: turn limit of an episode.
        max_source_chars: keep the tasks whose source is as short; 0 for all.
        compact: short observations and few tools, for small models.
        backend: which sandbox.
        allow_unsafe: accept plain subprocesses where no sandbox works.
        sandboxes: sandboxes shared by all episodes; needs ``compact``.
        concurrency: episodes at once.
        temperature: of a language model; 0 is greedy. Refused, as the next two, for agents that do not
            sample.
        max_tokens_per_turn: of a language model.
        max_tokens_per_episode: of a language model.
        output_dir: where ``eval.json``, the trajectories and the settings go.
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
    allow_unsafe: bool = False
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


def run_eval(config: EvalConfig) -> EvalResult:
    """Evaluates one agent; writes ``output_dir`` if it is given.

    Raises:
        ConfigError: the agent is neither a baseline nor a folder, or the output folder is taken.
        TaskError: the tasks cannot be loaded.
    """
    found = load(config.tasks, config.split or None, config.max_source_chars or None)
    tasks = found[: config.num_tasks or None]
    options: dict[str, Any] = {"backend": config.backend, "allow_unsafe": config.allow_unsafe}
    if config.compact:
        options |= COMPACT | {"sandboxes": config.sandboxes}
    store = _open_store(config)
    try:
        with _agents(config, tasks) as agents:
            result = evaluate(
                lambda: make(
                    "agentic_gym/SWE-v0",
                    tasks=tasks,
                    split=None,
                    max_turns=config.max_turns,
                    **options,
                ),
                agent_factory=agents,
                task_ids=[task.task_id for task in tasks],
                samples_per_task=config.samples,
                concurrency=config.concurrency,
                seed=config.seed,
                store=store,
                name="eval",
            )
    finally:
        if store is not None:
            store.close()
    if config.output_dir is not None:
        (config.output_dir / "eval.json").write_text(result.to_json())
    return result


def _open_store(config: EvalConfig) -> RunStore | None:
    if config.output_dir is None:
        return None
    if (config.output_dir / "run.sqlite").exists():
        raise ConfigError(f"{config.output_dir} already holds a run: give another output_dir")
    config.output_dir.mkdir(parents=True, exist_ok=True)
    dump_config(config, config.output_dir / "config.yaml")
    return RunStore(config.output_dir)


@contextmanager
def _agents(config: EvalConfig, tasks: Sequence[SWETask]) -> Iterator[AgentFactory]:
    """Makes agents for the episodes: of a baseline, or of a language model in an engine."""
    if config.agent in BASELINES:
        by_id = {task.task_id: task for task in tasks}
        yield lambda launch: PolicyAgent(make_baseline(config.agent), task=by_id[launch.task_id])
        return
    if not Path(config.agent).is_dir():
        raise ConfigError(
            f"agent={config.agent!r} is none of {', '.join(BASELINES)}, and no folder of a causal LM "
            "(written by save_pretrained) has that path"
        )
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
    result = run_eval(config)
    from rich.console import Console

    console = Console(width=160)
    console.print(results_table({config.agent: result}))
    console.print(result.render(config.agent).split("\n\n", 1)[-1], highlight=False)
    if config.output_dir is not None:
        where = {"output_dir": str(config.output_dir), "success": result.success.value}
        console.print_json(json.dumps(where))
    return 0


EVAL = Command("eval", "evaluate an agent on the tasks of a split", run)
