"""Published speedups of rollout schedules beside what the simulator says, with nothing fitted but one row each.

For each paper one baseline row sets one number, the seconds of a decode step; the other rows are predicted.
Everything else is fixed beforehand and the same for all papers:

- lengths: lognormal, sigma 1, capped at ten times the median (P99 is ten times the median), correlation of
  the logarithms within a task 0.5, prompts of 512 tokens, one turn;
- the machine: training takes 8 FLOPs a parameter and token, prefill 2, at 40 % of the peak of the accelerators
  in bfloat16; a decode step also reads the KV cache at the memory's bandwidth; a replica's roofline batch
  is 128.

What differs from the paper by more than 15 % is marked, and a note says what the simulation leaves out.
``--quick`` simulates fewer updates on the same machines. No accelerator is used; every figure is simulated.

    python benchmarks/paper_tables.py --quick
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from agentic_gym.trainers.schedules.base import Schedule
from agentic_gym.trainers.schedules.bounded_async import BoundedAsync
from agentic_gym.trainers.schedules.registry import make_schedule
from agentic_gym.trainers.simulation.cluster import Cluster
from agentic_gym.trainers.simulation.driver import Simulation
from agentic_gym.trainers.simulation.report import SimulationReport, make_report
from agentic_gym.trainers.simulation.workload import LognormalPlans, Workload

FITS = 0.15
"""Relative difference within which a prediction is said to fit."""

SEED = 1


@dataclasses.dataclass(frozen=True)
class Chip:
    """An accelerator: peak FLOP/s in bfloat16, and bytes/s of its memory."""

    flops: float
    bandwidth: float


@dataclasses.dataclass(frozen=True)
class Model:
    """A dense transformer: parameters, and bytes of keys and values of one token in bfloat16."""

    parameters: float
    kv_bytes: float


H800 = Chip(989e12, 3.35e12)
H20 = Chip(148e12, 4.0e12)
ROOFLINE = 128
EFFICIENCY = 0.4
MEMORY = 80e9 * 0.9

# Layers x key-value heads x head size x 2 (keys, values) x 2 bytes, from the models' configuration files.
QWEN_1_5B = Model(1.5e9, 28 * 2 * 128 * 4)
QWEN_7B = Model(7.6e9, 28 * 4 * 128 * 4)
QWEN_14B = Model(14.8e9, 48 * 8 * 128 * 4)
QWEN_32B = Model(32.8e9, 64 * 8 * 128 * 4)


def machine(
    chip: Chip, model: Model, *, rollout: int, per_replica: int, train: int, **changes: Any
) -> Cluster:
    """A cluster of so many accelerators that roll out and that train."""
    peak = EFFICIENCY * chip.flops
    free = MEMORY * per_replica - 2 * model.parameters
    values: dict[str, Any] = {
        "replicas": rollout // per_replica,
        "max_concurrent": ROOFLINE,
        "step_seconds": 0.01,  # set by the calibration row
        "roofline_batch": ROOFLINE,
        "kv_seconds_per_token": model.kv_bytes / (chip.bandwidth * per_replica),
        "kv_capacity": int(free / model.kv_bytes),
        "prefill_tokens_per_s": peak * per_replica / (2 * model.parameters),
        "transfer_seconds": 2.0,
        "train_seconds": 5.0,
        "train_seconds_per_token": 8 * model.parameters / (peak * train),
        "trainers": max(1, train // per_replica),
    }
    return Cluster(**{**values, **changes})


def lengths(cap: int) -> Workload:
    return Workload(median_tokens=cap / 10, max_tokens=cap)


@dataclasses.dataclass(frozen=True)
class Setting:
    """Batch, groups, lengths and machine of one experiment."""

    cluster: Cluster
    workload: Workload
    batch: int
    group: int
    updates: int
    warmup: int = 0

    def run(self, schedule: str | Callable[[], Schedule], **options: Any) -> SimulationReport:
        concurrency = self.cluster.replicas * self.cluster.max_concurrent
        concurrency = options.pop("concurrency", concurrency)
        if isinstance(schedule, str):
            name, made = schedule, make_schedule(
                schedule, self.batch, self.group, concurrency, self.cluster.replicas, **options
            )
        else:
            name, made = "custom", schedule()
        simulation = Simulation(
            made,
            self.cluster,
            LognormalPlans(self.workload, SEED),
            updates=self.updates,
            warmup=self.warmup,
        )
        simulation.run()
        return make_report(simulation, name)

    def on(self, **changes: Any) -> Setting:
        """The same on a changed cluster."""
        cluster = Cluster(**{**self.cluster.model_dump(), **changes})
        return dataclasses.replace(self, cluster=cluster)


def calibrate(setting: Setting, seconds: float) -> Setting:
    """Sets the decode step so that a synchronous update takes so long."""
    for _ in range(4):
        found = setting.run("sync").update_s["mean"]
        rest = dataclasses.replace(setting).on(step_seconds=1e-9).run("sync").update_s["mean"]
        factor = (seconds - rest) / (found - rest)
        setting = setting.on(step_seconds=setting.cluster.step_seconds * factor)
        if abs(factor - 1) < 1e-3:
            break
    return setting


@dataclasses.dataclass(frozen=True)
class Row:
    """One line: what, the paper's value (or range), the simulated one, how many decimals."""

    what: str
    paper: float | tuple[float, float] | None
    simulated: float
    digits: int = 2
    calibrated: bool = False

    @property
    def fits(self) -> bool | None:
        """None where there is nothing to compare with."""
        if self.paper is None or self.calibrated:
            return None
        low, high = self.paper if isinstance(self.paper, tuple) else (self.paper, self.paper)
        return low * (1 - FITS) <= self.simulated <= high * (1 + FITS)


# ---- RollPacker --------------------------------------------------------------------------------------


def rollpacker(quick: bool) -> dict[str, list[Row]]:
    """Average rollout seconds of 128 prompts x 8 responses (algorithms.md, section 2)."""
    columns = {
        "7B, 8k": (QWEN_7B, 8192, 1, (82, 77, 71, 54, 77, 72, 60, 47)),
        "14B, 16k": (QWEN_14B, 16384, 2, (277, 260, 232, 115, 244, 169, 143, 88)),
        "32B, 32k": (QWEN_32B, 32768, 4, (673, 658, 655, 265, 636, 259, 279, 170)),
    }
    tables = {}
    for title, (model, cap, tensor_parallel, paper) in columns.items():
        accelerators = 32 * tensor_parallel
        setting = Setting(
            machine(
                H800,
                model,
                rollout=accelerators,
                per_replica=tensor_parallel,
                train=accelerators,
                transfer_seconds=0.0,
                train_seconds=0.0,
                train_seconds_per_token=0.0,
            ),
            lengths(cap),
            128 * 8,
            8,
            updates=15 if quick else 60,
        )
        setting = calibrate(setting, paper[0])
        rows = [Row("synchronous", paper[0], setting.run("sync").update_s["mean"], 0, True)]
        grid = [(r, 1.0) for r in (1.125, 1.25, 1.5)]
        grid += [(1.0, p) for p in (1.125, 1.25, 1.5)]
        for (responses, prompts), seconds in zip([*grid, (1.25, 1.25)], paper[1:], strict=True):
            report = setting.run(
                "tail_batching",
                carry="restart",
                response_redundancy=responses,
                prompt_redundancy=prompts,
                max_wait_rounds=10**6,  # the paper has no such rule
            )
            what = f"etaR {responses:g}, etaP {prompts:g}"
            rows.append(Row(what, seconds, report.update_s["mean"], 0))
        tables[f"RollPacker, {title}: rollout seconds"] = rows
    return tables


# ---- DORA --------------------------------------------------------------------------------------------


def dora(quick: bool) -> dict[str, list[Row]]:
    """Tokens per second at 64 accelerators, relative to synchronous (section 4)."""
    updates = {"updates": 8 if quick else 24, "warmup": 3 if quick else 6}

    def on(rollout: int, train: int, **changes: Any) -> Setting:
        cluster = machine(H800, QWEN_32B, rollout=rollout, per_replica=4, train=train, **changes)
        return Setting(cluster, lengths(32768), 128 * 16, 16, **updates)

    together = on(64, 64)
    # Calibration: rollout is 65 % of a synchronous step (the paper says 50 to 80 %).
    rest = together.on(step_seconds=1e-9).run("sync").update_s["mean"]
    together = calibrate(together, rest / 0.35)
    step = {"step_seconds": together.cluster.step_seconds}
    base = together.run("sync").update_s["mean"]
    apart = on(32, 32, **step)
    generate = apart.on(train_seconds=0.0, train_seconds_per_token=0.0)
    train = apart.on(step_seconds=1e-9)
    one_step_off = max(generate.run("sync").update_s["mean"], train.run("sync").update_s["mean"])
    tokens = together.run("sync").tokens_per_s
    partial = apart.run("bounded_async", max_staleness=3).tokens_per_s
    streaming = apart.run("streaming", window=3, concurrency=2 * apart.batch).tokens_per_s
    return {
        "DORA, 32B, 64 accelerators: tokens/s relative to synchronous": [
            Row("synchronous", 1.0, 1.0, calibrated=True),
            Row("one step off (max of generation and training)", 1.0, base / one_step_off),
            Row("partial rollout (bounded_async, eta 3)", 1.40, partial / tokens),
            Row("DORA (streaming, window 3)", 1.65, streaming / tokens),
        ]
    }


# ---- AReaL -------------------------------------------------------------------------------------------


def areal(quick: bool) -> dict[str, list[Row]]:
    """Throughput by eta, and what interrupting brings (section 3)."""
    updates = {"updates": 10 if quick else 40, "warmup": 6 if quick else 20}
    steps, tables = {}, {}
    for model, name, nodes, hours in ((QWEN_1_5B, "1.5B", 16, 41.0), (QWEN_7B, "7B", 24, 57.7)):
        total = 8 * nodes
        cluster = machine(H800, model, rollout=total, per_replica=1, train=total)
        setting = Setting(cluster, lengths(27_000), 2048, 16, **updates)
        setting = calibrate(setting, hours * 3.6)  # of 1,000 updates
        steps[name] = setting.cluster.step_seconds
        base = setting.run("sync").tokens_per_s
        rollout = total * 3 // 4
        apart = machine(
            H800, model, rollout=rollout, per_replica=1, train=total - rollout, step_seconds=steps[name]
        )
        split = dataclasses.replace(setting, cluster=apart)
        speedup = {"1.5B": 41.0 / 14.8, "7B": 57.7 / 25.4}[name]
        rows = [Row("synchronous, all accelerators", 1.0, 1.0, calibrated=True)]
        for eta in (0, 1, 2, 4, 8, 16) if not quick else (0, 1, 4):
            report = split.run("bounded_async", max_staleness=eta)
            rows.append(
                Row(f"eta {eta}", speedup if eta == 4 else None, report.tokens_per_s / base)
            )
        tables[f"AReaL, {name}, {nodes} nodes, 3 of 4 roll out: tokens/s by eta"] = rows
    rows = []
    for model, name, gain in ((QWEN_1_5B, "1.5B", 1.12), (QWEN_7B, "7B", 1.17)):
        cluster = machine(
            H800, model, rollout=24, per_replica=1, train=8, step_seconds=steps[name]
        )
        setting = Setting(cluster, lengths(27_000), 2048, 16, **updates)
        found = [
            setting.run("bounded_async", max_staleness=4, on_publish=mode).tokens_per_s
            for mode in ("interrupt", "wait")
        ]
        rows.append(Row(f"{name}, interrupt against wait", gain, found[0] / found[1]))
    tables["AReaL, 4 nodes: throughput gained by interrupting"] = rows
    return tables


# ---- verl --------------------------------------------------------------------------------------------


class FractionalAsync(BoundedAsync):
    """Bounded staleness of less than one update, as verl counts it: a share of stale trajectories.

    No more than ``1 + fraction`` batches are launched and untrained, the one in training included.
    """

    def __init__(self, batch_size: int, group_size: int, *, fraction: float, concurrency: int):
        super().__init__(batch_size, group_size, max_staleness=8, max_concurrent=concurrency)
        self._most = int((1 + fraction) * self._wanted)

    def _num_launches(self) -> int:
        untrained = len(self._book.groups)
        untrained += self._wanted if self._window.update > self._version else 0
        return max(0, min(super()._num_launches(), self._most - untrained))


def verl(quick: bool) -> dict[str, list[Row]]:
    """Seconds an update by the share of stale trajectories, 64 + 64 H20 (section 12)."""
    cluster = machine(
        H20,
        QWEN_7B,
        rollout=64,
        per_replica=1,
        train=64,
        # Of the row without staleness: 98.8 s of training, 4.1 s that are neither that nor generation.
        train_seconds=98.8,
        train_seconds_per_token=0.0,
        transfer_seconds=4.1,
    )
    setting = Setting(cluster, lengths(28_672), 8192, 16, updates=6 if quick else 16, warmup=2 if quick else 4)
    setting = calibrate(setting, 231.3)
    rows = [Row("0", 231.3, setting.run("sync").update_s["mean"], 0, True)]
    for fraction, seconds in ((0.1, 171.3), (0.3, 146.1), (0.5, 150.6)):
        report = setting.run(
            lambda fraction=fraction: FractionalAsync(8192, 16, fraction=fraction, concurrency=64 * ROOFLINE)
        )
        rows.append(Row(f"{fraction:g}", seconds, report.update_s["mean"], 0))
    return {"verl fully async, 7B, 64 + 64 H20: seconds an update by stale share": rows}


# ---- Laminar -----------------------------------------------------------------------------------------


def laminar(quick: bool) -> dict[str, list[Row]]:
    """What repacking brings (section 5)."""
    cluster = machine(
        H800,
        QWEN_7B,
        rollout=64,
        per_replica=1,
        train=64,
        transfer="relay",
        transfer_seconds=2.0,
        push_seconds=2.0,
    )
    setting = Setting(cluster, lengths(16_384), 8192, 16, updates=8 if quick else 24, warmup=3 if quick else 8)
    reports = {
        seconds: setting.run("relay", repack_seconds=seconds, roofline_batch=ROOFLINE)
        for seconds in (3.0, float("inf"))
    }
    packed, plain = reports.values()
    return {
        "Laminar, 7B, 64 replicas: gained by repacking": [
            Row("throughput", (1.14, 1.26), packed.tokens_per_s / plain.tokens_per_s),
            Row("KV cache filled, with / without", 82.2 / 71.6, packed.kv_use / plain.kv_use),
        ]
    }
