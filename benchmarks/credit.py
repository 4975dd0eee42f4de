"""What credit assignment is worth: success against episodes, each way to give credit beside the others.

Two problems. The long chain (:mod:`credit_chain`): one early decision, N turns of distraction, the reward at
the end. And the default run on the pocket tasks, smaller, evaluated on held-out bugs. Every arm has the same
seeds, tasks and episodes; curves are compared seed by seed.

    python benchmarks/credit.py --only chain            # about half an hour on one core
    python benchmarks/credit.py --only pocket --output pocket.jsonl --jobs 2   # some hours
    python benchmarks/credit.py --quick                 # one seed of little, to see that it works
"""

from __future__ import annotations

import argparse
from typing import Any

import torch
from credit_chain import BATCH, chain_curve
from evidence import Curve, finished, keep, table
from pocket_runs import add_flags, pocket_curves, shrink
from rich.console import Console

from agentic_gym.rewards.credit.plan import make_credit

BASE = "outcome"
SHORT = {"gae_lambda": 0.95}
CHAIN: dict[str, tuple[str, dict[str, Any]]] = {
    BASE: ("outcome+token_gae", {"gae_lambda": 1.0}),
    "outcome, groups": ("outcome+group", {}),
    "token GAE": ("token_gae", SHORT),
    "turn GAE": ("turn_gae", SHORT),
    "turn GAE, λ by length": ("turn_gae", {"adaptive_lambda": 1.0}),
    "attention": ("attention+turn_gae", SHORT),
    "attention, λ = 1": ("attention+turn_gae", {"gae_lambda": 1.0}),
    "causal attention": ("causal_attention+turn_gae", SHORT),
    "GiGPO": ("gigpo", {}),
    "preplan, anchor": ("turn_gae+preplan_anchor", SHORT),
    "preplan, anchor, groups": ("outcome+group+preplan_anchor", {}),
}
"""Credit on the chain, and settings of the trainer. It has no state that ``process`` could measure."""

POCKET = (
    BASE,
    "outcome, groups",
    "token GAE",
    "turn GAE",
    "turn GAE, λ = 1",
    "process",
    "attention",
    "causal attention",
)
"""Arms of :data:`pocket_runs.ARMS`."""


def chain(options: argparse.Namespace, console: Console, known: dict[str, Curve]) -> None:
    """The long chain, at each length."""
    torch.set_num_threads(1)
    for distractions in (8,) if options.quick else (8, 16, 32):
        curves: dict[str, list[Curve]] = {}
        for name, (credit, settings) in CHAIN.items():
            for seed in range(options.seeds):
                key = f"chain/{distractions}/{name}/{seed}"
                if key not in known:
                    values = {"advantage": make_credit(credit).estimator, **settings}
                    successes = chain_curve(
                        credit, {}, values, distractions=distractions, updates=options.chain_updates,
                        seed=seed,
                    )  # fmt: skip
                    points = [(0.0, 1 / 16), *enumerate(successes, start=1)]
                    known[key] = [(float(BATCH * update), rate) for update, rate in points]
                    keep(options.output, key, known[key])
                    console.print(f"{key}: {known[key][-1][1]:.3f}")
                curves.setdefault(name, []).append(known[key])
        for base in (BASE, "outcome, groups"):
            console.print(table(f"Chain with {distractions} distractions", curves, base))


def main() -> None:
    """Runs, and prints one table a problem."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add_flags(parser)
    parser.add_argument("--only", choices=("chain", "pocket"))
    parser.add_argument("--chain-updates", type=int, default=30)
    options = parser.parse_args()
    if options.quick:
        shrink(options)
        options.chain_updates = 4
    console = Console(width=140)
    if options.only != "pocket":
        chain(options, console, finished(options.output))
    if options.only != "chain":
        curves = pocket_curves(POCKET, options, console)
        console.print(table("Pocket tasks, held-out bugs", curves, BASE))


if __name__ == "__main__":
    main()
