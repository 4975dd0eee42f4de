"""What a run's own trace says about schedules: measured, chosen by a rule, and simulated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import Field, model_validator

from agentic_gym.config import StrictConfig
from agentic_gym.errors import ConfigError
from agentic_gym.store import RunStore
from agentic_gym.trainers.simulation.advice import (
    CYCLE,
    Consistency,
    candidates,
    choose,
    measure,
    mildest,
    replica_counts,
)
from agentic_gym.trainers.simulation.advice_report import Advice, Machine, Row
from agentic_gym.trainers.simulation.cluster import Cluster
from agentic_gym.trainers.simulation.report import SimulationReport, make_report
from agentic_gym.trainers.simulation.run import simulate
from agentic_gym.trainers.simulation.settings import SimulateConfig
from agentic_gym.trainers.simulation.trace import read_trace
from agentic_gym.trainers.simulation.workload import Plans
from agentic_gym.types import Outcome

_UPDATE_SECONDS = ("time_score_s", "time_optimise_s")


class AdviseConfig(StrictConfig):
    """Say which schedule suits a run, from its trace.

    Attributes:
        run: folder of a run that has trained.
        trace: its ``run.sqlite`` alone, where there is no folder.
        nodes: machines that will serve the policy, each with as many replicas as the run had.
        elastic: nodes come and go.
        consistency: what a batch may be sampled by: "strict" (the newest weights; interrupted episodes go on
            under newer ones), "single_version" (older weights, one version a trajectory) or "mixed".
        rule: "consistency" asks for that first; "seed" is the popular tree, which asks for the tail first.
        batch_size: trajectories of an update; 0: as the run had.
        group_size: trajectories of a task; 0: as the run had.
        concurrency: episodes at once on all nodes together; 0: on each node as many as the run had.
        updates: measured of each schedule's simulation, after a warm-up; under 5 the table is rough.
        seed: of the simulation.
        write: YAML file for the run's configuration with the advised schedule and a new output_dir.
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
    rows, plans = {}, read_trace(path, config.seed)
    for name, options in candidates(machine.batch_size, machine.group_size, facts.tail).items():
        on_progress(name)
        rows[name] = _row(config, machine, plans, name, options)
    return Advice(facts, machine, choice, rows)


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
        replicas=config.nodes * int(stored.get("replicas", 1)),
        relays=config.nodes * int(stored.get("relays", 0)),
        train_s=sum(trained) / len(sizes),
        publish_s=sum(published) / len(published) if published else 0.0,
    )


def _stored(path: Path) -> dict[str, Any]:
    """The rollout section of a run's configuration, where there is one."""
    if not path.is_file():
        return {}
    return dict((yaml.safe_load(path.read_text(encoding="utf-8")) or {}).get("rollout") or {})


def _row(
    config: AdviseConfig, machine: Machine, plans: Plans, name: str, options: list[dict[str, Any]]
) -> Row:
    """The row of a schedule: the fewest replicas and the mildest options that come near the best."""
    relays = machine.relays
    if name == "relay" and config.nodes > 1:  # on one machine the trainer's memory is nearer
        relays = max(relays, config.nodes)
    rows = []
    for replicas in replica_counts(name, machine.replicas):
        tried = replace(machine, replicas=replicas, relays=relays)
        reports = [_simulated(config, tried, plans, name, own) for own in options]
        best = mildest([report.trajectories_per_s for report in reports])
        rows.append(Row(reports[best], options[best], replicas, relays))
    rates = [row.report.trajectories_per_s for row in rows]
    pair = rates[1] / rates[0] if len(rates) == 2 else None
    return replace(rows[mildest(rates)], pair=pair)


def _simulated(
    config: AdviseConfig, machine: Machine, plans: Plans, name: str, options: dict[str, Any]
) -> SimulationReport:
    share = -(-machine.concurrency // machine.replicas)
    transfer = {"transfer": "relay", "push_seconds": machine.publish_s} if machine.relays else {}
    cluster = Cluster(
        replicas=machine.replicas,
        max_concurrent=share,
        roofline_batch=max(machine.group_size, share),  # a group is launched on one replica
        transfer_seconds=machine.publish_s,
        train_seconds=machine.train_s,
        train_seconds_per_token=0.0,
        trainers=1,
        **transfer,
    )
    settings = SimulateConfig(
        schedule=name,
        schedule_options=options,
        updates=CYCLE + config.updates,
        warmup=CYCLE,
        batch_size=machine.batch_size,
        group_size=machine.group_size,
        concurrency=machine.concurrency,
        seed=config.seed,
        cluster=cluster,
    )
    return make_report(simulate(settings, plans), name)
