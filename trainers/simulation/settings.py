"""Settings of ``agentic-gym simulate``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from agentic_gym.config import (
    CONFIG_SWITCH,
    StrictConfig,
    Switch,
    parse_flags,
    read_yaml,
    take_config_flag,
)
from agentic_gym.errors import ConfigError
from agentic_gym.trainers.simulation.cluster import Cluster
from agentic_gym.trainers.simulation.workload import Workload

Positive = Annotated[int, Field(gt=0)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]

SWITCHES = (
    CONFIG_SWITCH,
    Switch("--replicas", "short for --cluster.replicas", "N"),
    Switch("--option", "an option of the schedule; may be given several times", "NAME=VALUE"),
)


class SimulateConfig(StrictConfig):
    """Simulate a rollout schedule on a cluster; nothing is trained.

    Attributes:
        schedule: its name.
        schedule_options: keyword arguments of the schedule.
        updates: to simulate.
        warmup: updates at the start that no measurement counts.
        batch_size: trajectories of an update.
        group_size: trajectories of one task, launched together.
        concurrency: trajectories that run at once, on all replicas together, for schedules that bound it;
            0: as many as the replicas carry.
        seed: of everything random.
        cluster: machines and what they cost.
        workload: what trajectories do, unless a trace says so.
        trace: run folder, or ``run.sqlite``, whose trajectories are resampled.
        gantt: SVG file for a picture of what replicas and trainer did when.
        gantt_from: simulated seconds at which it starts.
        gantt_seconds: that it shows.
        format: a table for people, or one JSON object.
    """

    schedule: str = "sync"
    schedule_options: dict[str, Any] = Field(default_factory=dict)
    updates: Positive = 20
    warmup: Annotated[int, Field(ge=0)] = 2
    batch_size: Positive = 512
    group_size: Positive = 8
    concurrency: Annotated[int, Field(ge=0)] = 0
    seed: Annotated[int, Field(ge=0)] = 0
    cluster: Cluster = Cluster()
    workload: Workload = Workload()
    trace: Path | None = None
    gantt: Path | None = None
    gantt_from: Seconds = 0.0
    gantt_seconds: Annotated[Seconds, Field(gt=0)] = 1800.0
    format: Literal["table", "json"] = "table"

    @classmethod
    def keys_of_others(cls) -> Mapping[str, str]:
        """Keys by which the file of another command is recognised, and that command."""
        train = "agentic-gym train (a run of which is simulated with --trace and its folder)"
        return dict.fromkeys(("ppo", "warm_start"), train)

    @model_validator(mode="after")
    def _refuse_contradictions(self) -> Self:
        if self.warmup >= self.updates:
            raise ValueError(
                f"warmup={self.warmup} leaves none of updates={self.updates} to measure: raise updates"
            )
        if self.trace is not None and self.workload != Workload():
            raise ValueError("workload is read only without a trace: remove it, or remove trace")
        if self.gantt is None:
            for name in ("gantt_from", "gantt_seconds"):
                if getattr(self, name) != type(self).model_fields[name].default:
                    raise ValueError(f"{name} is read only with gantt: give a file for the picture")
        return self


def read_settings(argv: Sequence[str]) -> SimulateConfig:
    """Settings from ``--config FILE`` and flags, which win.

    Raises:
        ConfigError: a key, flag, option or value is wrong, or the file cannot be read.
    """
    path, words = take_config_flag(argv)
    options, rest = _take_options(words)
    config = parse_flags(
        SimulateConfig,
        rest,
        prog="agentic-gym simulate",
        default=None if path is None else read_yaml(SimulateConfig, path),
        switches=SWITCHES,
    )
    if not options:
        return config
    fields = {name: getattr(config, name) for name in SimulateConfig.model_fields}
    return SimulateConfig(**{**fields, "schedule_options": {**config.schedule_options, **options}})


def _take_options(argv: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Splits ``--option NAME=VALUE`` from the other words, and writes ``--replicas`` out."""
    options: dict[str, Any] = {}
    rest: list[str] = []
    words = iter(argv)
    for word in words:
        flag, equals, value = word.partition("=")
        if flag == "--replicas":
            rest.append(f"--cluster.replicas{equals}{value}")
            continue
        if flag != "--option":
            rest.append(word)
            continue
        text = value if equals else next(words, "")
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise ConfigError(f"--option needs NAME=VALUE, not {text!r}: --option max_staleness=4")
        options[name.replace("-", "_")] = _scalar(value)
    return options, rest


def _scalar(text: str) -> Any:
    """A number, true, false or null as JSON writes them; anything else is a word.

    >>> _scalar("4"), _scalar("1e-1"), _scalar("restart"), _scalar("Infinity")
    (4, 0.1, 'restart', inf)
    """
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return text if isinstance(value, dict | list | str) else value
