"""Published speedups of rollout schedules beside the simulator's, with nothing fitted but one row each.

For each paper one baseline row sets one number, the seconds of a decode step; the other rows are predicted.
Everything else is fixed beforehand and the same for all papers:

- lengths: lognormal, sigma 1, capped at ten times the median (P99 is ten times the median), correlation of
  the logarithms within a task 0.5, prompts of 512 tokens, one turn;
- arithmetic at 40 % of the accelerator's peak in bfloat16: prefill 2 FLOPs a parameter and token, training 8;
  so a decode step is flat up to 0.4 x peak / bandwidth requests (118 on an H800, 14 on an H20);
- memory at its bandwidth: a decode step also reads the KV cache, which has 90 % of 80 GB less the weights;
- an engine takes 1024 requests and runs as many as its cache holds; new weights and interrupts prefill again
  what runs; a trajectory moves with its KV cache, at 400 Gbit/s an accelerator.

What differs from the paper by more than 15 % is marked, and a note says why. The headlines that each paper
is quoted for come last. Which settings are the papers' own and which are assumed is said at each function of
``paper_systems.py`` and ``paper_verl.py``. ``--quick`` simulates fewer updates on the same machines, and
fewer rows. No accelerator is used; every figure is simulated.

    python benchmarks/paper_tables.py --quick
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import time
from pathlib import Path
from typing import Any

from paper_settings import FITS, Headline, render, render_headlines
from paper_systems import areal, dora, laminar, rollpacker
from paper_verl import verl
from rich.console import Console

NOTES = {
    "rollpacker": "How much each kind of redundancy brings hangs on the correlation of lengths within a "
    "prompt, which the baseline row does not give. At the assumed 0.5, some prompt of a round of 128 has "
    "more responses at the cap than may be left out in 66 % of the rounds at etaR 1.25 and in 30 % at 1.5; "
    "without correlation in 2 % and none. The artifact takes the longest of ten rounds, so here etaR brings "
    "nothing, and in the paper much: its responses are correlated less. Nor can one shape of lengths fit "
    "three columns that differ from each other: at etaP 1.25 they have 0.88, 0.61 and 0.38 of the baseline.",
    "dora": "Replicas are shared out among versions by trajectories, and an old version, whose trajectories "
    "are the long ones, keeps as many as its KV cache fills; by trajectories alone streaming was slower than "
    "partial rollout. The trainer, on half of the accelerators, is the limit. DORA passes it by lending "
    "replicas to the trainer; elastic here lends so many that generation falls behind. K, batch, lengths "
    "and the split of the accelerators are not in our account of the paper. One step off is composed of "
    "two synchronous runs: no schedule here works in such batches.",
    "areal": "For 7B the trainer is the limit: 48 accelerators need 132 s at 40 % of their peak for the 39 "
    "million tokens of a batch, and an update of the paper takes 91 s. So either its batches are smaller or "
    "its responses shorter than assumed, or its trainer reaches three fifths of the peak.",
    "verl": "Each publish prefills again what runs. At 40 % of an H20's peak that takes up to minutes, in "
    "which a replica here decodes nothing; real engines mix prefill with decoding, and an H20, with little "
    "arithmetic for its bandwidth, comes closer to its peak than an H800. Without that prefill (last row) "
    "the curve ends where the paper's does. The paper's updates train for 99 to 113 s, those here 98.8 s.",
    "laminar": "There is no row to calibrate on: a decode step takes what RollPacker's 7B row gives.",
}
"""Why it does not fit where it does not, by paper."""


PAPERS = {"rollpacker": rollpacker, "dora": dora, "areal": areal, "verl": verl, "laminar": laminar}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer updates")
    parser.add_argument("--only", choices=PAPERS, help="one paper")
    parser.add_argument("--output", type=Path, help="append the result to this JSONL file")
    options = parser.parse_args()
    console = Console()
    result: dict[str, Any] = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "simulated": True,
        "quick": options.quick,
        "tables": {},
    }
    began = time.process_time()
    headlines: list[Headline] = []
    verdicts: list[bool] = []
    for name, function in PAPERS.items():
        if options.only not in {None, name}:
            continue
        found = function(options.quick)
        headlines += found.headlines
        for title, rows in found.tables.items():
            console.print(render(f"{title} (simulated)", rows))
            result["tables"][title] = [dataclasses.asdict(row) for row in rows]
        fits = [row.fits for rows in found.tables.values() for row in rows]
        verdicts += [fit for fit in fits if fit is not None]
        if False in fits:
            console.print(f"{NOTES[name]}\n", width=78)
    console.print(render_headlines(headlines))
    result["headlines"] = [dataclasses.asdict(line) for line in headlines]
    print(f"{sum(verdicts)} of {len(verdicts)} predictions within {FITS:.0%}")
    print(f"{sum(line.reached for line in headlines)} of {len(headlines)} headlines reached")
    print(f"{time.process_time() - began:.0f} s of processor time; every figure is simulated")
    if options.output is not None:
        with options.output.open("a") as file:
            file.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
