"""What task selection is worth: success on held-out bugs against episodes, each selection beside uniform.

The default run on the pocket tasks, smaller. Every arm has the same seeds, settings and trained episodes.
Dynamic sampling needs groups and credit without a value head, so it has a baseline of its own; the episodes
that it refuses are played on top of those that it trains, and printed.

    python benchmarks/selection.py --output selection.jsonl    # some hours; goes on where it was
    python benchmarks/selection.py --quick
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import torch
from evidence import Curve, finished, keep, table
from pocket_runs import pocket_curve
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from train_swe import DEFAULT

GROUPS: dict[str, Any] = {"credit": "group", "ppo": {"group_size": 4, "gamma": 1.0}}
ARMS: dict[str, dict[str, Any]] = {
    "uniform": {},
    "band": {"selection": "band"},
    "band, diversity": {"selection": "band+diversity"},
    "curriculum": {"selection": "curriculum"},
    "uniform, groups": GROUPS,
    "refill, groups": {**GROUPS, "ppo": {**GROUPS["ppo"], "refill": 8}},
}
BASES = {"uniform, groups": "uniform, groups", "refill, groups": "uniform, groups"}


def main() -> None:
    """Runs, and prints one table a baseline."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one seed of little")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--updates", type=int, default=9)
    parser.add_argument("--episodes", type=int, default=32, help="of an update")
    parser.add_argument("--every", type=int, default=3, help="updates between evaluations")
    parser.add_argument("--tasks", type=int, default=60, help="evaluated")
    parser.add_argument(
        "--output", type=Path, help="curves (JSONL); what is there is not run again"
    )
    options = parser.parse_args()
    if options.quick:
        options.seeds = 1
        options.updates, options.episodes, options.every, options.tasks = 1, 8, 1, 4
    torch.set_num_threads(1)
    console, known = Console(width=140), finished(options.output)
    curves: dict[str, list[Curve]] = {}
    for seed in range(options.seeds):
        for name, arm in ARMS.items():
            key = f"selection/{name}/{seed}"
            if key not in known:
                known[key], played = pocket_curve(
                    DEFAULT, arm, seed=seed, updates=options.updates, episodes=options.episodes,
                    every=options.every, tasks=options.tasks,
                )  # fmt: skip
                keep(options.output, key, known[key], played=played)
                successes = [round(y, 3) for _, y in known[key]]
                console.print(f"{key}: {successes}, {played} episodes played")
            curves.setdefault(name, []).append(known[key])
    for base in ("uniform", "uniform, groups"):
        arms = {name: curves[name] for name in ARMS if BASES.get(name, "uniform") == base}
        console.print(table("Pocket tasks, held-out bugs", arms, base))


if __name__ == "__main__":
    main()
