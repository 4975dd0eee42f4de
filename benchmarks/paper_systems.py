"""The papers whose schedules are simulated as they are: RollPacker, DORA, AReaL, Laminar.

Each function says which settings the paper, its code or its documentation give, and which are assumed.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from paper_settings import (
    H800,
    QWEN_1_5B,
    QWEN_7B,
    QWEN_14B,
    QWEN_32B,
    SEATS,
    Found,
    Headline,
    Model,
    Row,
    Setting,
    calibrate,
    lengths,
    machine,
)

# ---- RollPacker --------------------------------------------------------------------------------------

ROLLPACKER = {
    "7B, 8k": (QWEN_7B, 8192, 1, 82),
    "14B, 16k": (QWEN_14B, 16384, 2, 277),
    "32B, 32k": (QWEN_32B, 32768, 4, 673),
}
"""Model, cap, accelerators of a replica, rollout seconds of the baseline."""

_GRID = [*((r, 1.0) for r in (1.125, 1.25, 1.5)), *((1.0, p) for p in (1.125, 1.25, 1.5))]
_GRID_SECONDS = {
    "7B, 8k": (77, 71, 54, 77, 72, 60, 47),
    "14B, 16k": (260, 232, 115, 244, 169, 143, 88),
    "32B, 32k": (658, 655, 265, 636, 259, 279, 170),
}
_ROLLPACKER_TOTAL = {"7B, 8k": (2.03, 1.30), "14B, 16k": (2.22, 1.48), "32B, 32k": (2.56, 2.21)}
ROLLOUT_SHARE = 0.7
"""Of a synchronous update's time; about that in RollPacker's account of itself."""

ITERATIONS = 10
"""Of each measurement in RollPacker's artifact."""


def rollpacker_setting(column: str, *, updates: int = ITERATIONS) -> Setting:
    """Rollouts alone, as the artifact's sensitivity analysis measures them, calibrated.

    Given: model, cap, 128 prompts x 8 responses, no training. Assumed: 16 replicas (the least that the
    paper used for 7B), tensor parallelism.
    """
    model, cap, tensor_parallel, seconds = ROLLPACKER[column]
    accelerators = 16 * tensor_parallel
    cluster = machine(
        H800,
        model,
        rollout=accelerators,
        per_replica=tensor_parallel,
        train=accelerators,
        transfer_seconds=0.0,
        train_seconds=0.0,
        train_seconds_per_token=0.0,
    )
    setting = Setting(cluster, lengths(cap), 128 * 8, 8, updates=updates)
    return calibrate(setting, seconds, measure=baseline_seconds, updates=ITERATIONS)


def baseline_seconds(setting: Setting) -> float:
    """Seconds of a synchronous rollout, computed as the others are."""
    return figure_seconds(setting.simulate("sync").record.updates, prompts=1.0)


def figure_seconds(updates: Sequence[float], prompts: float) -> float:
    """Seconds of a rollout as the artifact's plot computes them (``plot/plt_sensitive_squeezer.py``).

    Of each ten iterations, the longest short round and the longest long round, by how often each comes.

    >>> figure_seconds([1, 2, 1, 1, 9, 1, 1, 1, 1, 7], prompts=1.25)  # (4 x 2 + 9) / 5
    3.4
    >>> figure_seconds([1.0, 2.0, 3.0], prompts=1.0)
    3.0

    Args:
        updates: seconds of each.
        prompts: redundancy; with 1 there are no long rounds.
    """
    if prompts == 1:
        parts = [updates[n : n + ITERATIONS] for n in range(0, len(updates), ITERATIONS)]
        return sum(max(part) for part in parts) / len(parts)
    cycle = int(1 / (prompts - 1)) + 1
    found = []
    for first in range(0, len(updates), ITERATIONS):
        part = updates[first : first + ITERATIONS]
        part = part[: len(part) // cycle * cycle]
        long = max(part[cycle - 1 :: cycle])
        short = max(s for n, s in enumerate(part, 1) if n % cycle)
        found.append((short * (cycle - 1) + long) / cycle)
    return sum(found) / len(found)


def rollpacker(quick: bool) -> Found:
    """Average rollout seconds of 128 prompts x 8 responses (algorithms.md, section 2)."""
    tables, headlines = {}, []
    for column, (_, _, _, baseline) in ROLLPACKER.items():
        setting = rollpacker_setting(column, updates=ITERATIONS if quick else 2 * ITERATIONS)
        rows = [Row("synchronous", baseline, baseline_seconds(setting), 0, True)]
        for (responses, prompts), seconds in zip(
            [*_GRID, (1.25, 1.25)], _GRID_SECONDS[column], strict=True
        ):
            record = setting.simulate(
                "tail_batching",
                carry="restart",
                response_redundancy=responses,
                prompt_redundancy=prompts,
                max_wait_rounds=10**6,  # the paper has no such rule
            ).record
            what = f"etaR {responses:g}, etaP {prompts:g}"
            rows.append(Row(what, seconds, figure_seconds(record.updates, prompts), 0))
        tables[f"RollPacker, {column}: rollout seconds"] = rows
        share = rows[-1].simulated / rows[0].simulated
        speedup = 1 / (1 - ROLLOUT_SHARE + ROLLOUT_SHARE * share)
        for part, paper in zip(
            ("whole", "tail batching alone"), _ROLLPACKER_TOTAL[column], strict=True
        ):
            what = f"RollPacker, {column}, {part}, of veRL"
            headlines.append(Headline(what, paper, speedup, ROLLPACKER_WHY[part == "whole"]))
    return Found(tables, headlines)


ROLLPACKER_WHY = (
    "lengths here are correlated more within a prompt than in the paper's column",
    "tail batching alone is simulated: no streamed training, reward scheduler or parallelism planner",
)
"""Why tail batching alone, and why the whole, is not reached."""

# ---- DORA --------------------------------------------------------------------------------------------

INSTANT = {"step_seconds": 1e-9, "kv_seconds_per_token": 0.0, "prefill_tokens_per_s": 1e18}
DORA_WHY = (
    "the trainer, on half of the accelerators, is the limit",
    "an update takes half the time, the longest response all of it",
)
"""Why it is not reached at 64 accelerators, and at 128."""


def dora_setting(accelerators: tuple[int, int], quick: bool, **changes: Any) -> Setting:
    """Given: model, accelerators. Assumed: half of them roll out, 128 prompts x 16 responses, cap 32k, K."""
    rollout, train = accelerators
    cluster = machine(H800, QWEN_32B, rollout=rollout, per_replica=4, train=train, **changes)
    updates = {"updates": 12, "warmup": 5} if quick else {"updates": 24, "warmup": 8}
    return Setting(cluster, lengths(32768), 128 * 16, 16, **updates)


def dora(quick: bool) -> Found:
    """Tokens per second at 64 accelerators, relative to synchronous (section 4)."""
    together = dora_setting((64, 64), quick)
    # Calibration: rollout is 65 % of a synchronous step (the paper says 50 to 80 %).
    few = dataclasses.replace(together, updates=3, warmup=0)
    rest = few.on(**INSTANT).run("sync").update_s["mean"]
    together = calibrate(together, rest / 0.35)
    step = together.cluster.step_seconds
    base = few.on(step_seconds=step).run("sync")
    apart = dora_setting((32, 32), quick, step_seconds=step)
    half = dataclasses.replace(apart, updates=3, warmup=0)
    generation = half.on(train_seconds=0.0, train_seconds_per_token=0.0)
    one_step_off = max(
        generation.run("sync").update_s["mean"], half.on(**INSTANT).run("sync").update_s["mean"]
    )
    # Weights must come from somewhere while the trainer works.
    apart = apart.on(transfer="relay")
    rows = [
        Row("synchronous", 1.0, 1.0, given=True),
        Row(
            "one step off: the longer of generation and training",
            1.0,
            base.update_s["mean"] / one_step_off,
        ),
    ]
    schedules: list[tuple[str, float | None, str, dict[str, Any]]] = [
        ("partial rollout: bounded_async, eta 3", 1.40, "bounded_async", {"max_staleness": 3}),
        ("DORA: streaming, window 3", 1.65, "streaming", {"window": 3}),
        ("streaming, window 3, elastic", None, "streaming", {"window": 3, "elastic": True}),
        ("streaming, window 12", None, "streaming", {"window": 12}),
    ]
    for what, paper, name, options in schedules:
        report = apart.run(name, concurrency=apart.batch * 3 // 2, **options)
        rows.append(Row(what, paper, report.tokens_per_s / base.tokens_per_s))
    headlines = [
        Headline(
            "DORA, 32B, 64 accelerators, of synchronous", 1.65, rows[3].simulated, DORA_WHY[0]
        ),
        Headline(
            "DORA, 32B, 128 accelerators, of synchronous", 2.12, dora_128(step, quick), DORA_WHY[1]
        ),
    ]
    return Found({"DORA, 32B, 64 accelerators: tokens/s relative to synchronous": rows}, headlines)


def dora_128(step: float, quick: bool) -> float:
    """Tokens a second of streaming, of synchronous, at 128 accelerators, with the step that 64 gave."""
    together = dora_setting((128, 128), quick, step_seconds=step)
    base = dataclasses.replace(together, updates=3, warmup=0).run("sync")
    apart = dora_setting((64, 64), quick, step_seconds=step, transfer="relay")
    report = apart.run("streaming", window=3, concurrency=apart.batch * 3 // 2)
    return report.tokens_per_s / base.tokens_per_s


# ---- AReaL -------------------------------------------------------------------------------------------

AREAL = {"1.5B": (QWEN_1_5B, 16, 41.0, 14.8, 1.12), "7B": (QWEN_7B, 24, 57.7, 25.4, 1.17)}
"""Model, nodes, hours of 1,000 updates synchronous and asynchronous, gain by interrupting."""

AREAL_WHY = "the trainer, on a quarter of the accelerators at 40 % of peak, is the limit"


def areal_setting(model: Model, rollout: int, train: int, **changes: Any) -> Setting:
    """A batch of 512 prompts x 16 responses.

    Given, in AReaL's repository: that, the cap, one accelerator a replica, three of four roll out, as many
    trajectories at once as a batch has, fewer than 5 % cut (1 % here). Assumed: other lengths.
    """
    cluster = machine(H800, model, rollout=rollout, per_replica=1, train=train, **changes)
    return Setting(cluster, lengths(27_000), 512 * 16, 16, updates=3)


def areal(quick: bool) -> Found:
    """Throughput by eta, and what interrupting brings (section 3)."""
    tables, headlines, gains = {}, [], []
    for name, (model, nodes, sync_hours, async_hours, gain) in AREAL.items():
        total = 8 * nodes
        whole = calibrate(areal_setting(model, total, total), sync_hours * 3.6, updates=2)
        step = whole.cluster.step_seconds
        paper = round(sync_hours / async_hours, 2)
        rows = areal_etas(whole, areal_setting(model, total * 3 // 4, total // 4), paper, quick)
        tables[f"AReaL, {name}, {nodes} nodes, three of four roll out: tokens/s by eta"] = rows
        what = f"AReaL, {name}, {nodes} nodes, eta 4, of synchronous"
        headlines.append(Headline(what, paper, rows[-1].simulated, AREAL_WHY))
        few = areal_setting(model, 24, 8, step_seconds=step)
        few = dataclasses.replace(few, updates=4 if quick or name == "7B" else 8, warmup=2)
        # Generation is what the paper measures here: nothing may hold it back but the publishes.
        pair = [
            few.run("bounded_async", max_staleness=1000, on_publish=mode).generated_per_s
            for mode in ("interrupt", "wait")
        ]
        gains.append(Row(name, gain, pair[0] / pair[1]))
    tables["AReaL, 4 nodes: generated tokens/s, interrupt against wait"] = gains
    return Found(tables, headlines)


def areal_etas(whole: Setting, split: Setting, paper: float, quick: bool) -> list[Row]:
    """Tokens a second of synchronous, by eta; the paper has one value, for 4."""
    base = dataclasses.replace(whole, updates=2).run("sync").tokens_per_s
    split = split.on(step_seconds=whole.cluster.step_seconds)
    rows = [Row("synchronous, all accelerators", 1.0, 1.0, given=True)]
    # All trajectories start together: it takes some updates until they end evenly.
    for eta, updates, warmup in ((0, 3, 0), (1, 10, 4), (4, 20, 8)):
        if not (quick and eta == 1):
            shorter = {"updates": updates // (1 + quick), "warmup": warmup // (1 + quick)}
            run = dataclasses.replace(split, **shorter)
            found = run.run("bounded_async", max_staleness=eta).tokens_per_s / base
            rows.append(Row(f"eta {eta}", paper if eta == 4 else None, found))
    return rows


# ---- Laminar -----------------------------------------------------------------------------------------

LAMINAR_WHY = "no more than five batches are on their way, and each waits for its longest response"


def laminar_setting(rollout: int, train: int, batch: int, step: float, **changes: Any) -> Setting:
    """Given: H800, relays. Assumed: 7B, cap 16k, halves that roll out and train, 512 prompts x 16 responses.

    A decode step takes what RollPacker's 7B row gives: this paper has no row to calibrate on.
    """
    cluster = machine(
        H800, QWEN_7B, rollout=rollout, per_replica=1, train=train, step_seconds=step, **changes
    )
    return Setting(cluster, lengths(16_384), batch, 16, updates=3)


def laminar(quick: bool) -> Found:
    """What repacking brings, and the whole against synchronous on the same accelerators (section 5)."""
    step = rollpacker_setting("7B, 8k", updates=3).cluster.step_seconds
    relays = {"transfer": "relay", "push_seconds": 2.0}
    # Half of the batch on half of the 64 replicas: the same for each of them.
    setting = laminar_setting(32, 32, 4096, step, **relays)
    setting = dataclasses.replace(setting, updates=9 if quick else 16, warmup=5 if quick else 6)
    plain, packed = (
        # Nothing holds generation back: what one replica generates is measured, not what is trained.
        setting.run(
            "relay",
            repack_seconds=seconds,
            roofline_batch=SEATS,
            buffer_size=10**6,
            concurrency=32 * SEATS,
        )
        for seconds in (math.inf, 3.0)
    )
    rows = [
        Row("generated tokens/s, without", 1.0, 1.0, given=True),
        Row(
            "generated tokens/s, with", (1.14, 1.26), packed.generated_per_s / plain.generated_per_s
        ),
        Row("share of the KV cache filled, without", 0.716, plain.kv_use),
        Row("share of the KV cache filled, with", 0.822, packed.kv_use),
    ]
    bounded, free = (laminar_speedup(1024, step, most, quick) for most in (4, None))
    what = "Laminar, 7B, 1024 accelerators"
    headlines = [
        Headline(f"{what}, {quoted}, of verl; staleness {name}", paper, found, LAMINAR_WHY)
        for quoted, paper in (("best", 5.48), ("mean", 2.56))
        for name, found in (
            (f"not bounded, {free[1]:.1f} in the mean", free[0]),
            ("at most 4", bounded[0]),
        )
    ]
    return Found({"Laminar, 7B: repacking": rows}, headlines)


def laminar_speedup(
    accelerators: int, step: float, most: int | None, quick: bool
) -> tuple[float, float]:
    """Tokens a second of relay, of synchronous on all accelerators; and the mean staleness.

    Args:
        accelerators: half of them roll out.
        step: seconds of a decode step.
        most: updates of staleness; None: no bound, as in the paper, but no more than ten batches untrained.
        quick: fewer updates.
    """
    base = laminar_setting(accelerators, accelerators, 8192, step).run("sync")
    half = accelerators // 2
    split = laminar_setting(half, half, 8192, step, transfer="relay", push_seconds=2.0)
    updates, warmup = (12, 6) if most is not None or quick else (24, 12)
    split = dataclasses.replace(split, updates=updates, warmup=warmup)
    concurrency = half * SEATS if most is None else (most + 1) * 8192
    report = split.run("relay", max_staleness=most, roofline_batch=SEATS, concurrency=concurrency)
    return report.tokens_per_s / base.tokens_per_s, report.staleness["mean"]
