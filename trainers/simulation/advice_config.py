"""The configuration that advice amounts to: the measured run's own, with what was simulated."""

from __future__ import annotations

import os
from itertools import chain, count
from pathlib import Path
from typing import Any

import yaml

from agentic_gym.errors import ConfigError
from agentic_gym.trainers.simulation.advice import HEARTBEAT_S
from agentic_gym.trainers.simulation.advice_report import Advice

_STAGES = ("sync", "tail_batching")
"""Schedules that say which groups are certain before a batch is whole (``ppo.stream``)."""


def write_config(advice: Advice, stored: Path, target: Path) -> list[str]:
    """Writes the run's configuration with what the advised row of the table ran, and a new ``output_dir``.

    Args:
        advice: what was found.
        stored: the run's configuration; where there is none, only the keys that were advised are written.
        target: the file.

    Returns:
        What one should know of the file.

    Raises:
        ConfigError: the file cannot be written.
    """
    notes = []
    values: dict[str, Any] = {}
    if stored.is_file():
        values = yaml.safe_load(stored.read_text(encoding="utf-8")) or {}
    else:
        notes.append(f"{target} holds only what was advised: add the keys of your run")
    schedule, machine, row = advice.choice.schedule, advice.machine, advice.chosen
    values["output_dir"] = new_folder(str(values.get("output_dir", "runs/train")), schedule)
    values["schedule"], values["schedule_options"] = schedule, dict(row.options)
    rollout = values["rollout"] = values.get("rollout") or {}
    rollout |= {
        "concurrency": machine.concurrency,
        "replicas": row.replicas,
        "relays": row.relays,
    }
    rollout.pop("relay_heartbeat_s", None)  # refused where there is no relay
    if row.relays:
        rollout["relay_heartbeat_s"] = HEARTBEAT_S
    ppo = values["ppo"] = values.get("ppo") or {}
    ppo |= {"episodes_per_update": machine.batch_size, "group_size": machine.group_size}
    if ppo.get("stream") and schedule not in _STAGES:
        ppo["stream"] = False
        notes.append(f"ppo.stream is off in it: {schedule} hands over whole batches")
    try:
        target.write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{target} cannot be written: {error.strerror or error}") from error
    return notes


def new_folder(old: str, schedule: str) -> str:
    """A folder that does not exist, named after a run's folder and a schedule.

    >>> new_folder("no/such/run", "relay"), new_folder("no/such/run-relay", "relay")
    ('no/such/run-relay', 'no/such/run-relay-2')
    """
    stem = old.rstrip("/").removesuffix(f"-{schedule}") + f"-{schedule}"
    names = chain([stem] if stem != old.rstrip("/") else [], (f"{stem}-{n}" for n in count(2)))
    return next(name for name in names if not os.path.lexists(name))
