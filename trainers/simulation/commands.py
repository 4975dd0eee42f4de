"""``agentic-gym simulate``: how a schedule would do on a cluster that one need not have."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from agentic_gym.cli import Command


def run(argv: list[str]) -> int:
    """Runs the command: ``--config FILE``, any flag of ``SimulateConfig``, ``--option NAME=VALUE``."""
    from agentic_gym.errors import MissingDependency
    from agentic_gym.trainers.simulation.settings import read_settings

    config = read_settings(argv)
    try:
        import simpy  # noqa: F401  # before anything is read or written
    except ImportError as error:
        raise MissingDependency("agentic-gym[simulate]", "simulating a cluster") from error
    from agentic_gym.trainers.simulation.gantt import draw
    from agentic_gym.trainers.simulation.report import make_report
    from agentic_gym.trainers.simulation.run import simulate

    if config.gantt is not None:
        _check_writable(config.gantt)
    simulation = simulate(config)
    report = make_report(simulation, config.schedule)
    if config.gantt is not None:
        end = config.gantt_from + config.gantt_seconds
        _write(config.gantt, draw(simulation, config.schedule, config.gantt_from, end))
    if config.format == "json":
        print(json.dumps(report.to_dict(), indent=2))
    else:
        from rich.console import Console

        Console(file=sys.stdout).print(report.render())
    return 0


def _check_writable(path: Path) -> None:
    from agentic_gym.errors import ConfigError

    if path.is_dir() or not path.parent.is_dir():
        raise ConfigError(f"gantt={path} is not a file in a folder that exists")


def _write(path: Path, text: str) -> None:
    from agentic_gym.errors import ConfigError

    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror or error}") from error


SIMULATE = Command("simulate", "simulate a rollout schedule on a cluster", run)
