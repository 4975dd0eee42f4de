"""What task selection is worth: success on held-out bugs against episodes, each selection beside uniform.

The default run on the pocket tasks, smaller. Every arm has the same seeds, settings and trained episodes.
Dynamic sampling needs groups and credit without a value head, so it has a baseline of its own; the episodes
that it refuses are played on top of those that it trains, and printed.

    python benchmarks/selection.py --output pocket.jsonl --jobs 2    # some hours; goes on where it was
    python benchmarks/selection.py --quick
"""

from __future__ import annotations

import argparse

from evidence import table
from pocket_runs import add_flags, pocket_curves, shrink
from rich.console import Console

TABLES = {
    "turn GAE": ("band", "band, diversity"),
    "outcome, groups": ("refill, groups",),
    "outcome": ("turn GAE", "band", "band, diversity"),
}
"""Baselines, all of them uniform, and what is held against each."""


def main() -> None:
    """Runs, and prints one table a baseline."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add_flags(parser)
    options = parser.parse_args()
    if options.quick:
        shrink(options)
    console = Console(width=140)
    names = list(dict.fromkeys(name for base, arms in TABLES.items() for name in (base, *arms)))
    curves = pocket_curves(names, options, console)
    for base, arms in TABLES.items():
        shown = {name: curves[name] for name in (base, *arms)}
        console.print(table("Pocket tasks, held-out bugs", shown, base))


if __name__ == "__main__":
    main()
