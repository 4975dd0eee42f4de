"""What a run's own trace says about schedules: measured, chosen by a rule, and simulated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import Field, model_validator
from rich.table import Table

from agentic_gym.config import StrictConfig
from agentic_gym.errors import ConfigError
from agentic_gym.store import RunStore
from agentic_gym.trainers.simulation.advice import (
    HEARTBEAT_S,
    Choice,
    Consistency,
    Facts,
    candidates,
    choose,
    measure,
    mildest,
)
from agentic_gym.trainers.simulation.cluster import Cluster
from agentic_gym.trainers.simulation.report import SimulationReport, make_report
from agentic_gym.trainers.simulation.run import simulate
from agentic_gym.trainers.simulation.settings import SimulateConfig
from agentic_gym.types import Outcome

_UPDATE_SECONDS = ("time_score_s", "time_optimise_s")


class AdviseConfig(StrictConfig):
    """Say which schedule suits a run, from its trace.

    Attributes:
        run: folder of a run that has trained.
        trace: its ``run.sqlite`` alone, where there is no folder.
        nodes: machines that will serve the policy.
        elastic: nodes come and go.
        consistency: what a batch may be sampled by: "strict" (the newest weights; interrupted episodes go on
            under newer ones), "single_version" (older weights, one version a trajectory) or "mixed".
        rule: "consistency" asks for that first; "seed" is the popular tree, which asks for the tail first.
        batch_size: trajectories of an update; 0: as the run had.
        group_size: trajectories of a task; 0: as the run had.
        concurrency: episodes at once on all nodes together; 0: as the run had, a node.
        updates: simulated for each schedule.
        seed: of the simulation.
        write: YAML file for the run's configuration with the advised schedule.
        format: tables for people, or one JSON object.
    """

    run: Path | None = None
    trace: Path | None = None
    nodes: Annotated[int, Field(gt=0)] = 1
    elastic: bool = False
    consistency: Consistency = "mixed"
    rule: Literal["consistency", "seed"] = "consistency"
    batch_size: Annotated[int, Field(ge=0)] = 0
    group_size: Annotated[int, Field(ge=0)] = 0
    concurrency: Annotated[int, Field(ge=0)] = 0
    updates: Annotated[int, Field(gt=2)] = 12
    seed: Annotated[int, Field(ge=0)] = 0
    write: Path | None = None
    format: Literal["table", "json"] = "table"

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.run is None) == (self.trace is None):
            raise ValueError("give either run (a run folder) or trace (its run.sqlite)")
        return self


@dataclass(frozen=True, slots=True)
class Machine:
    """The run that was measured: what the simulation takes from it.

    Attributes:
        batch_size: trajectories of an update.
        group_size: trajectories of a task.
        concurrency: episodes at once.
        replicas: of its engine.
        train_s: seconds of an update in the trainer.
        publish_s: seconds that loading weights took.
    """

    batch_size: int
    group_size: int
    concurrency: int
    replicas: int
    train_s: float
    publish_s: float


@dataclass(frozen=True, slots=True)
class Advice:
    """What was found.

    Attributes:
        facts: that were measured.
        machine: that was measured.
        choice: of the rule.
        options: that the advised schedule should have.
        simulated: the best report of each schedule, with the options that it had.
    """

    facts: Facts
    machine: Machine
    choice: Choice
    options: dict[str, Any]
    simulated: dict[str, tuple[SimulationReport, dict[str, Any]]]

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return {
            "episodes": self.facts.episodes,
            "long_tail_share": self.facts.tail,
            "episode_s": dict(self.facts.seconds),
            "nodes": self.facts.nodes,
            "consistency": self.facts.consistency,
            "schedule": self.choice.schedule,
            "why": self.choice.why,
            "schedule_options": self.options,
            "relay_heartbeat_s": HEARTBEAT_S,
            "simulated": {
                name: {
                    "trajectories_per_s": report.trajectories_per_s,
                    "staleness_mean": report.staleness["mean"],
                    "options": options,
                }
                for name, (report, options) in self.simulated.items()
            },
        }

    def render(self) -> list[str | Table]:
        """For people."""
        facts, machine = self.facts, self.machine
        seconds = ", ".join(f"{key.upper()} {value:.1f}" for key, value in facts.seconds.items())
        table = Table(title="On this trace, simulated", title_justify="left")
        for column in ("schedule", "options", "episodes / s", "of sync", "staleness", "idle"):
            table.add_column(column)
        base = self.simulated["sync"][0].trajectories_per_s
        for name, (report, options) in self.simulated.items():
            table.add_row(
                f"[bold]{name}[/bold]" if name == self.choice.schedule else name,
                ", ".join(f"{key} {value}" for key, value in options.items()),
                f"{report.trajectories_per_s:.3g}",
                f"{report.trajectories_per_s / base:.2f}x",
                f"{report.staleness['mean']:.2f}",
                f"{report.replicas['idle']:.0%}",
            )
        prompts = machine.batch_size // machine.group_size
        advised = ", ".join(f"{key}={value}" for key, value in self.options.items()) or "none"
        return [
            f"measured: {facts.episodes} episodes, seconds {seconds}; {facts.tail:.1%} take over three "
            f"times the median; an update trains for {machine.train_s:.1f} s",
            f"given: {facts.nodes} node(s), consistency {facts.consistency}"
            + (", nodes come and go" if facts.elastic else ""),
            f"[bold]advice: {self.choice.schedule}[/bold] ({self.choice.why})",
            f"settings: P0 {prompts} prompts of {machine.group_size}, options: {advised}; relay "
            f"heartbeat {HEARTBEAT_S} s, buffer {10 * machine.batch_size} trajectories",
            table,
        ]


def advise(
    config: AdviseConfig, *, on_progress: Callable[[str], None] = lambda name: None
) -> Advice:
    """Measures, chooses and simulates.

    Args:
        config: what to do.
        on_progress: told the name of each schedule before it is simulated.

    Raises:
        ConfigError: there is no trace, or it holds nothing to measure.
        StoreError: it is no store of a run.
    """
    path = trace_path(config)
    seconds, machine = _measured(path, config)
    facts = measure(
        seconds,
        nodes=config.nodes,
        elastic=config.elastic,
        consistency=config.consistency,
    )
    choice = choose(facts, config.rule)
    simulated = {}
    for name, options in candidates(machine.batch_size, machine.group_size, facts.tail).items():
        on_progress(name)
        reports = [_simulated(config, machine, path, name, own) for own in options]
        best = mildest([report.trajectories_per_s for report in reports])
        simulated[name] = reports[best], options[best]
    return Advice(facts, machine, choice, simulated[choice.schedule][1], simulated)


def trace_path(config: AdviseConfig) -> Path:
    """The store that is read.

    Raises:
        ConfigError: it does not exist.
    """
    path = config.run or config.trace
    assert path is not None  # one of them is given
    file = path if path.suffix == ".sqlite" else path / "run.sqlite"
    if not file.is_file():
        raise ConfigError(f"there is no trace at {file}: give a run folder, or its run.sqlite")
    return file


def write_config(advice: Advice, config: AdviseConfig, target: Path) -> None:
    """Writes the run's configuration with the advised schedule; without a run folder, those keys alone.

    Raises:
        ConfigError: the file cannot be written.
    """
    stored = trace_path(config).parent / "config.yaml"
    values: dict[str, Any] = {}
    if stored.is_file():
        values = yaml.safe_load(stored.read_text(encoding="utf-8"))
    values["schedule"], values["schedule_options"] = advice.choice.schedule, advice.options
    rollout = values.setdefault("rollout", {})
    rollout["replicas"] = config.nodes
    if advice.choice.schedule == "relay":
        rollout |= {"relays": config.nodes, "relay_heartbeat_s": HEARTBEAT_S}
    try:
        target.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{target} cannot be written: {error.strerror or error}") from error


def _measured(path: Path, config: AdviseConfig) -> tuple[list[float], Machine]:
    with RunStore(path, readonly=True) as store:
        seconds: list[float] = []
        groups: dict[str, int] = {}
        for trajectory in store.finished():
            if trajectory.outcome is not Outcome.INFRA_ERROR:
                seconds.append(float(trajectory.metrics.get("duration_s", 0.0)))
                groups[trajectory.group_id] = groups.get(trajectory.group_id, 0) + 1
        sizes = [len(names) for _, names in store.batches_after(0)]
        trained = [sum(v for _, v in store.metrics(m)) for m in _UPDATE_SECONDS]
        published = [value for _, value in store.metrics("publish_s")]
        active = [value for _, value in store.metrics("active_episodes")]
    if not seconds or not sizes:
        raise ConfigError(f"{path} holds no finished episode in a batch: give a run that trained")
    stored = _stored(path.parent / "config.yaml")
    batch = config.batch_size or sizes[0]
    concurrency = config.concurrency or config.nodes * int(
        stored.get("concurrency", max(active, default=batch))
    )
    return seconds, Machine(
        batch_size=batch,
        group_size=config.group_size or max(groups.values()),
        concurrency=max(1, concurrency),
        replicas=config.nodes,
        train_s=sum(trained) / len(sizes),
        publish_s=sum(published) / len(published) if published else 0.0,
    )


def _stored(path: Path) -> dict[str, Any]:
    """The rollout section of a run's configuration, where there is one."""
    if not path.is_file():
        return {}
    return dict((yaml.safe_load(path.read_text(encoding="utf-8")) or {}).get("rollout") or {})


def _simulated(
    config: AdviseConfig, machine: Machine, path: Path, name: str, options: dict[str, Any]
) -> SimulationReport:
    cluster = Cluster(
        replicas=machine.replicas,
        max_concurrent=max(1, -(-machine.concurrency // machine.replicas)),
        roofline_batch=max(1, -(-machine.concurrency // machine.replicas)),
        transfer_seconds=machine.publish_s,
        train_seconds=machine.train_s,
        train_seconds_per_token=0.0,
        trainers=1,
    )
    settings = SimulateConfig(
        schedule=name,
        schedule_options=options,
        updates=config.updates,
        batch_size=machine.batch_size,
        group_size=machine.group_size,
        concurrency=machine.concurrency,
        seed=config.seed,
        cluster=cluster,
        trace=path,
    )
    return make_report(simulate(settings), name)
