"""Evaluate agents on tasks that were kept out of training, side by side and with intervals.

    python examples/evaluate_swe.py                                  # noop, gold, random, scripted
    python examples/evaluate_swe.py runs/train_swe/checkpoints/checkpoint-12 random --samples 4

Any setting of ``agentic-gym eval`` is a flag (``--split``, ``--samples``, ``--num-tasks`` …); agents come
before flags. With ``--output-dir`` each agent has a folder in it.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence

from rich.console import Console

from agentic_gym.cli import run_guarded
from agentic_gym.config import parse_flags
from agentic_gym.envs.swe.eval_command import EvalConfig, check_eval, run_eval
from agentic_gym.errors import ConfigError
from agentic_gym.evaluation import causes_tables, results_table

AGENTS = ("noop", "gold", "random", "scripted")


def configs_of(argv: Sequence[str]) -> dict[str, EvalConfig]:
    """The settings by agent, each with a folder of its own if there is an ``--output-dir``."""
    agents = list(itertools.takewhile(lambda word: not word.startswith("-"), argv))
    flags = argv[len(agents) :]
    configs: dict[str, EvalConfig] = {}
    folders: dict[str, str] = {}
    for agent in agents or AGENTS:
        try:
            config = parse_flags(
                EvalConfig, flags, prog="evaluate_swe.py", default=EvalConfig(agent=agent)
            )
        except ConfigError as error:
            words = (word for word in flags if not word.startswith("-"))
            if late := [word for word in words if f"flag {word!r}" in str(error)]:
                raise ConfigError(
                    f"{late[0]!r} stands behind flags. Agents come first: "
                    f"evaluate_swe.py {late[0]} --num-tasks 40"
                ) from error
            raise
        name = agent.strip("./").replace("/", "-")
        if name in folders:
            raise ConfigError(f"agents {folders[name]!r} and {agent!r} are one: give it once")
        folders[name] = agent
        if config.output_dir is not None:
            config = config.model_copy(update={"output_dir": config.output_dir / name})
        configs[agent] = config
    return configs


def main(argv: Sequence[str]) -> int:
    """Runs the example; returns the exit status."""
    configs = configs_of(argv)
    for config in configs.values():
        check_eval(config)  # all of them, before the first plays
    results = {agent: run_eval(config) for agent, config in configs.items()}
    console = Console(width=160)
    console.print(results_table(results), *causes_tables(results), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(run_guarded(main, sys.argv[1:], name="evaluate_swe.py"))
