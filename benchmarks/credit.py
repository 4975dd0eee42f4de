"""What credit assignment is worth: success against episodes, each way to give credit beside the others.

Two problems. The long chain (:mod:`credit_chain`): one early decision, N turns of distraction, the reward at
the end. And the default run on the pocket tasks, smaller, evaluated on held-out bugs. Every arm has the same
seeds, tasks and episodes; curves are compared seed by seed.

    python benchmarks/credit.py --only chain            # about half an hour on one core
    python benchmarks/credit.py --only pocket --output credit.jsonl    # some hours; goes on where it was
    python benchmarks/credit.py --quick                 # one seed of little, to see that it works
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from credit_chain import BATCH, chain_curve
from evidence import Curve, finished, keep, table
from pocket_runs import pocket_curve
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from train_swe import DEFAULT

BASE = "outcome"
ARMS: dict[str, tuple[str, dict[str, Any]]] = {
    BASE: ("outcome+group", {}),
    "outcome, value head": ("outcome+token_gae", {"gae_lambda": 1.0}),
    "token GAE": ("token_gae", {}),
    "turn GAE": ("turn_gae", {}),
    "process": ("process+turn_gae", {}),
    "attention": ("attention+turn_gae", {}),
    "causal attention": ("causal_attention+turn_gae", {}),
    "GiGPO": ("gigpo", {}),
    "preplan, anchor": ("preplan_anchor+turn_gae", {}),
}
"""Credit of each arm, and settings of the trainer."""

CHAIN = [name for name in ARMS if name != "process"]  # the chain has no state to measure
POCKET = ["token GAE", "turn GAE", "process", "attention", "causal attention", BASE]


def pocket_arm(name: str) -> Mapping[str, Any]:
    """Keys of the run that an arm changes."""
    credit, settings = ARMS[name]
    arm: dict[str, Any] = {"credit": credit, "ppo": dict(settings)}
    if credit.endswith("group"):
        # Groups of four instead of single episodes, and no discount, which groups do not read.
        arm["ppo"] |= {"group_size": 4, "gamma": 1.0}
    if "process" in credit:
        arm["env"] = {"train_options": {"process_state": True}}
    return arm


def chain(options: argparse.Namespace, console: Console, known: dict[str, Curve]) -> None:
    """The long chain, at each length."""
    for distractions in (8,) if options.quick else (8, 16, 32):
        curves: dict[str, list[Curve]] = {}
        for name in CHAIN:
            credit, settings = ARMS[name]
            for seed in range(options.seeds):
                key = f"chain/{distractions}/{name}/{seed}"
                if key not in known:
                    values = {"advantage": credit.rpartition("+")[2], **settings}
                    successes = chain_curve(
                        credit, {}, values, distractions=distractions, updates=options.chain_updates,
                        seed=seed,
                    )  # fmt: skip
                    points = [(0.0, 1 / 16), *enumerate(successes, start=1)]
                    known[key] = [(float(BATCH * update), rate) for update, rate in points]
                    keep(options.output, key, known[key])
                    console.print(f"{key}: {known[key][-1][1]:.3f}")
                curves.setdefault(name, []).append(known[key])
        console.print(table(f"Chain with {distractions} distractions", curves, BASE))


def pocket(options: argparse.Namespace, console: Console, known: dict[str, Curve]) -> None:
    """The pocket tasks."""
    curves: dict[str, list[Curve]] = {}
    for seed in range(options.seeds):
        for name in POCKET:
            key = f"pocket/{name}/{seed}"
            if key not in known:
                known[key], played = pocket_curve(
                    DEFAULT, pocket_arm(name), seed=seed, updates=options.updates, episodes=options.episodes,
                    every=options.every, tasks=options.tasks,
                )  # fmt: skip
                keep(options.output, key, known[key], played=played)
                console.print(f"{key}: {[round(y, 3) for _, y in known[key]]}")
            curves.setdefault(name, []).append(known[key])
    console.print(table("Pocket tasks, held-out bugs", curves, BASE))


def main() -> None:
    """Runs, and prints one table a problem."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one seed of little")
    parser.add_argument("--only", choices=("chain", "pocket"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--chain-updates", type=int, default=30)
    parser.add_argument("--updates", type=int, default=9)
    parser.add_argument("--episodes", type=int, default=32, help="of an update")
    parser.add_argument("--every", type=int, default=3, help="updates between evaluations")
    parser.add_argument("--tasks", type=int, default=60, help="evaluated")
    parser.add_argument(
        "--output", type=Path, help="curves (JSONL); what is there is not run again"
    )
    options = parser.parse_args()
    if options.quick:
        options.seeds, options.chain_updates = 1, 4
        options.updates, options.episodes, options.every, options.tasks = 1, 8, 1, 4
    torch.set_num_threads(1)
    console, known = Console(width=140), finished(options.output)
    if options.only != "pocket":
        chain(options, console, known)
    if options.only != "chain":
        pocket(options, console, known)


if __name__ == "__main__":
    main()
