"""Evaluate agents on tasks that were kept out of training, side by side and with intervals.

    python examples/evaluate_swe.py                                  # noop, gold, random, scripted
    python examples/evaluate_swe.py runs/train_swe/checkpoints/checkpoint-12 random --samples 4

Any setting of ``agentic-gym eval`` is a flag (``--split``, ``--samples``, ``--num-tasks`` …).
"""

from __future__ import annotations

import sys

from rich.console import Console

from agentic_gym.config import parse_flags
from agentic_gym.envs.swe.eval_command import EvalConfig, run_eval
from agentic_gym.errors import AgenticGymError
from agentic_gym.evaluation import results_table


def main(argv: list[str]) -> int:
    """Runs the example; returns the exit status."""
    agents: list[str] = []
    while argv and not argv[0].startswith("-"):
        agents.append(argv.pop(0))
    results = {}
    for agent in agents or ["noop", "gold", "random", "scripted"]:
        default = EvalConfig(agent=agent)
        config = parse_flags(EvalConfig, argv, prog="evaluate_swe.py", default=default)
        if config.output_dir is not None:
            name = agent.strip("./").replace("/", "-")
            config = config.model_copy(update={"output_dir": config.output_dir / name})
        results[agent] = run_eval(config)
    Console(width=160).print(results_table(results))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except AgenticGymError as error:
        sys.exit(f"{type(error).__name__}: {error}")
