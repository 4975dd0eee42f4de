"""``agentic-gym simulate``: how a schedule would do on a cluster that one need not have.

``agentic-gym advise``: which schedule suits a run, by what it measured.
"""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

from agentic_gym.cli import Command


def run(argv: list[str]) -> int:
    """Runs the command: ``--config FILE``, any flag of ``SimulateConfig``, ``--option NAME=VALUE``."""
    from agentic_gym.trainers.simulation.settings import read_settings

    config = read_settings(argv)
    _require_simpy()
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


def run_advise(argv: list[str]) -> int:
    """Runs the command: ``--run DIR`` or ``--trace FILE``, and any flag of ``AdviseConfig``."""
    from rich.console import Console

    from agentic_gym.config import load_config
    from agentic_gym.trainers.simulation.advice_config import write_config
    from agentic_gym.trainers.simulation.advise import AdviseConfig, advise, trace_path

    config = load_config(AdviseConfig, argv, prog="agentic-gym advise")
    trace = trace_path(config)
    _require_simpy()
    if config.write is not None:
        _check_writable(config.write, "write")
    with Console(stderr=True).status("simulating") as status:
        advice = advise(config, on_progress=lambda name: status.update(f"simulating {name}"))
    if config.format == "json":
        print(json.dumps(advice.to_dict(), indent=2))
    else:
        console = Console(file=sys.stdout)
        for part in advice.render():
            console.print(part, highlight=False)
    if config.write is not None:
        notes = write_config(advice, trace.parent / "config.yaml", config.write)
        command = f"agentic-gym train --config {shlex.quote(str(config.write))}"
        # Beside JSON, what is said to people goes elsewhere.
        said = sys.stderr if config.format == "json" else sys.stdout
        print(f"wrote {config.write}: {command}", *notes, sep="\n", file=said)
    return 0


def _require_simpy() -> None:
    from agentic_gym.errors import MissingDependency

    try:
        import simpy  # noqa: F401  # before anything is read or written
    except ImportError as error:
        raise MissingDependency("agentic-gym[simulate]", "simulating a cluster") from error


def _check_writable(path: Path, key: str = "gantt") -> None:
    from agentic_gym.errors import ConfigError

    if path.is_dir() or not path.parent.is_dir():
        raise ConfigError(f"{key}={path} is not a file in a folder that exists")


def _write(path: Path, text: str) -> None:
    from agentic_gym.errors import ConfigError

    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror or error}") from error


SIMULATE = Command("simulate", "simulate a rollout schedule on a cluster", run)
ADVISE = Command("advise", "say which rollout schedule suits a run, from its trace", run_advise)
