"""A whole training run: warm start, evaluation, PPO, evaluation, report. Resumable at every point.

Each phase leaves its result in the run folder (a checkpoint, or trajectories in the store), and a run that
is started again with ``resume`` takes up the first phase whose result is missing. The phases are methods in
the order in which they run; what they work with is in :mod:`~agentic_gym.trainers.assembly`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from rich.console import Console

from agentic_gym.config import CONFIG_SWITCH, Switch, dump_config, read_yaml, take_config_flag
from agentic_gym.errors import ConfigError
from agentic_gym.evaluation import (
    EvalResult,
    causes_tables,
    make_launches,
    percent,
    results_table,
    success_difference,
    summarise,
)
from agentic_gym.folders import make_folder
from agentic_gym.metrics import Interval
from agentic_gym.report import write_report
from agentic_gym.rollout import Launch, Rollout
from agentic_gym.store import RunStore
from agentic_gym.trainers.assembly import CHECKPOINT_FOLDER, Assembly, train_facts
from agentic_gym.trainers.explored import check_runs
from agentic_gym.trainers.learning import check_selection, rubric_of, selector_of
from agentic_gym.trainers.models import check_source
from agentic_gym.trainers.phase_times import PhaseTimes
from agentic_gym.trainers.ppo_args import ppo_args
from agentic_gym.trainers.run_config import (
    EvalSection,
    TrainConfig,
    import_object,
    schedule_of,
)
from agentic_gym.types import Trajectory

CONFIG_FILE = "config.yaml"

_ABSENT = object()
"""Value of a key that a mapping does not have."""

_MOST_SHOWN = 80
"""Characters of a value in a message."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run found.

    Attributes:
        output_dir: the run folder.
        before: results before training, by evaluation name.
        after: results after training.
        rises: paired difference of the success rate, by evaluation name.
        baselines: results of the agents evaluated beside.
        report: path of ``report.html``.
    """

    output_dir: Path
    before: dict[str, EvalResult]
    after: dict[str, EvalResult]
    rises: dict[str, Interval]
    baselines: dict[str, EvalResult]
    report: Path


class Pipeline:
    """Runs one configuration.

    Args:
        config: the run.
        resume: take up a run that was stopped; otherwise the run folder must be new.
        console: where progress goes; standard error by default.

    Raises:
        ConfigError: the run folder cannot be made, is taken, or holds a run of another configuration.
        CheckpointError: the model is a folder that does not exist, or a name that cannot be looked up.
    """

    def __init__(
        self, config: TrainConfig, *, resume: bool = False, console: Console | None = None
    ) -> None:
        self._config = config
        self._console = console or Console(stderr=True)
        schedule_of(config)  # refused before the folder is taken
        if config.ppo.updates:
            ppo_args(config, config.output_dir / CHECKPOINT_FOLDER)
            rubric_of(config)
            check_selection(config)
            if "profile" in config.selection_options and not resume:
                selector_of(config, train_facts(config))  # it may be of other tasks
        if not resume:  # a run that has begun needs them no more
            check_runs(config.demonstrations.runs)
        _claim(config, resume=resume)
        self._store = RunStore(config.output_dir)
        self._store.put_state("name", config.name)
        self._times = PhaseTimes(self._store)
        self._assembly = Assembly(config, self._store, self._console)

    def run(self) -> RunResult:
        """All phases, in order; returns what they found."""
        try:
            with self._phase("prepare"):
                self._assembly.prepare()
            with self._phase("baselines"):
                self._evaluate_baselines()
            with self._phase("evaluate_before"):
                self._evaluate("before")
            with self._phase("train"):
                self._assembly.train(on_update=self._times.save)
            with self._phase("evaluate_after"):
                self._evaluate("after")
            return self._conclude()
        finally:
            self._assembly.close()
            self._store.close()

    # ---- phases --------------------------------------------------------------------------------

    def _evaluate(self, when: str) -> None:
        """Evaluates the policy as it is now on every evaluation's tasks."""
        for name, section in self._config.evaluations.items():
            for style in ("sampled", "greedy") if section.greedy else ("sampled",):
                self._evaluate_once(f"{when}/{name}/{style}", name, section, style == "greedy")

    def _evaluate_once(self, label: str, name: str, section: EvalSection, greedy: bool) -> None:
        if label in self._store.evals():
            return
        launches = make_launches(
            self._assembly.eval_tasks(name),
            samples_per_task=1 if greedy else section.samples,
            seed=self._config.seed,
            name=label,
        )
        with self._assembly.policy_rollout(section.options, greedy=greedy) as rollout:
            self._play(label, rollout, launches)

    def _evaluate_baselines(self) -> None:
        for agent, path in self._config.baselines.items():
            make_agents = import_object(path)
            for name, section in self._config.evaluations.items():
                label = f"baseline/{name}/{agent}"
                if label in self._store.evals():
                    continue
                tasks = self._assembly.eval_tasks(name)[: self._config.baseline_tasks or None]
                launches = make_launches(tasks, seed=self._config.seed, name=label)
                agents = self._assembly.baseline(make_agents, section.options)
                with self._assembly.rollout(section.options, agents) as rollout:
                    self._play(label, rollout, launches)

    def _play(self, label: str, rollout: Rollout, launches: list[Launch]) -> None:
        trajectories = rollout.collect(launches, description=label)
        self._store.record_eval(label, trajectories)
        self._times.save()
        result = summarise(trajectories)
        self._console.print(
            f"  {label:<32} solved {percent(result.success)} % "
            f"of {result.counted} episodes, {result.outcomes['infra_error']} infra errors",
            soft_wrap=True,
        )

    def _conclude(self) -> RunResult:
        before: dict[str, EvalResult] = {}
        after: dict[str, EvalResult] = {}
        rises: dict[str, Interval] = {}
        baselines: dict[str, EvalResult] = {}
        for label in self._store.evals():
            when, _, name = label.partition("/")
            episodes = self._store.eval_trajectories(label)
            if when == "baseline":
                baselines[name] = summarise(episodes)
            elif when == "before":
                before[name] = summarise(episodes)
                later = self._episodes(f"after/{name}")
                after[name] = summarise(later)
                rises[name] = success_difference(episodes, later)
        report = write_report(self._config.output_dir)
        self._print(before, after, rises, baselines)
        return RunResult(self._config.output_dir, before, after, rises, baselines, report)

    def _episodes(self, label: str) -> list[Trajectory]:
        return self._store.eval_trajectories(label)

    def _print(
        self,
        before: dict[str, EvalResult],
        after: dict[str, EvalResult],
        rises: dict[str, Interval],
        baselines: dict[str, EvalResult],
    ) -> None:
        rows = {f"before {name}": result for name, result in before.items()}
        rows |= {f"after  {name}": result for name, result in after.items()}
        rows |= {f"agent  {name}": result for name, result in baselines.items()}
        console = Console(width=max(self._console.width, 160))
        console.print(results_table(rows), *causes_tables(rows), sep="\n")
        for name, rise in rises.items():
            console.print(
                f"rise on {name}: {percent(rise, signed=True)} points "
                "(95 % interval, paired and clustered by task)"
            )

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        """Announces and times a phase. Seconds are saved with each evaluation and each update."""
        self._console.print(f"[bold]{name.replace('_', ' ')}[/bold]")
        with self._times.phase(name):
            yield


def _claim(config: TrainConfig, *, resume: bool) -> None:
    """Makes the run folder, or checks that it holds this very run."""
    folder, path = config.output_dir, config.output_dir / CONFIG_FILE
    if os.path.exists(path):  # unlike Path.exists, false where it may not be looked at
        if not resume:
            raise ConfigError(
                f"{folder} already holds a run: give another output_dir, or --resume to go on with it"
            )
        stored = read_yaml(TrainConfig, path)
        changed = [
            difference
            for name in TrainConfig.model_fields
            if name != "output_dir"  # it may have been moved, or be written another way
            for difference in _differences(name, getattr(stored, name), getattr(config, name))
        ]
        if changed:
            raise ConfigError(
                f"{folder} holds a run of another configuration (different: {'; '.join(changed)}). "
                "Resume it with its own config.yaml, or give another output_dir"
            )
        return
    if resume:
        raise ConfigError(f"{folder} holds no run to resume ({CONFIG_FILE} is missing)")
    check_source(
        config.model
    )  # before the folder is taken: another model would need another folder
    make_folder(folder, "output_dir")
    dump_config(config, path)


def _differences(key: str, before: Any, now: Any) -> list[str]:
    """Each key that differs, dotted, with both values.

    >>> _differences("ppo", {"updates": 5, "seed": 1}, {"updates": 3, "seed": 1})
    ['ppo.updates: 5 before, 3 now']
    """
    if before == now:
        return []
    old, new = _keys(before), _keys(now)
    if old is None or new is None:
        return [f"{key}: {_short(before)} before, {_short(now)} now"]
    return [
        difference
        for name in dict.fromkeys([*old, *new])
        for difference in _differences(
            f"{key}.{name}", old.get(name, _ABSENT), new.get(name, _ABSENT)
        )
    ]


def _keys(value: Any) -> Mapping[str, Any] | None:
    """The keys of a section or a mapping; None for another value."""
    if isinstance(value, BaseModel):
        return {name: getattr(value, name) for name in type(value).model_fields}
    return value if isinstance(value, Mapping) else None


def _short(value: Any) -> str:
    text = "absent" if value is _ABSENT else repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]} …"


SWITCHES = (
    CONFIG_SWITCH,
    Switch("--dry-run", "try every part of the run once, write nothing, and stop"),
    Switch("--resume", "go on with the run in the output folder"),
)
"""What :func:`take_switches` takes, for ``parse_flags``."""


@dataclass(frozen=True, slots=True)
class Switches:
    """Words on the command line that are no configuration.

    Attributes:
        resume: take up the run in the output folder.
        dry_run: check everything and stop.
        config: path after ``--config``.
    """

    resume: bool
    dry_run: bool
    config: str | None


def take_switches(argv: Sequence[str]) -> tuple[Switches, list[str]]:
    """Splits the command line into switches and flags of the configuration.

    Raises:
        ConfigError: ``--config`` has no file behind it, or is given twice.
    """
    config, words = take_config_flag(argv)
    rest: list[str] = []
    found: dict[str, bool] = {"--resume": False, "--dry-run": False}
    for word in words:
        if (flag := word.replace("_", "-")) in found:
            found[flag] = True
        else:
            rest.append(word)
    return Switches(found["--resume"], found["--dry-run"], config), rest
