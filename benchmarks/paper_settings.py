"""What ``paper_tables.py`` is made of: machines, models, settings, rows. Prints nothing itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from rich.table import Table

from agentic_gym.trainers.schedules.base import Schedule
from agentic_gym.trainers.schedules.registry import make_schedule
from agentic_gym.trainers.simulation.cluster import Cluster
from agentic_gym.trainers.simulation.driver import Simulation
from agentic_gym.trainers.simulation.report import SimulationReport, make_report
from agentic_gym.trainers.simulation.workload import LognormalPlans, Workload

FITS = 0.15
"""Relative difference within which a prediction is said to fit."""

SEED = 1

EFFICIENCY = 0.4
"""Share of the peak that prefill, training and large decode batches reach."""

MEMORY = 80e9 * 0.9
"""Bytes of an accelerator that weights and KV cache may take."""

SEATS = 1024
"""Requests that an engine takes at once: the default of vLLM and of verl; RollPacker sets 2048. The KV cache
decides how many of them run."""

NETWORK = 50e9
"""Bytes a second between nodes, for each accelerator: one 400 Gbit/s adapter, as H800 nodes have."""


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
    roofline = int(peak / chip.bandwidth)  # 2 FLOPs against 2 bytes for each parameter
    free = MEMORY * per_replica - 2 * model.parameters
    values: dict[str, Any] = {
        "replicas": rollout // per_replica,
        "max_concurrent": SEATS,
        "step_seconds": 0.01,  # set by the calibration row
        "roofline_batch": roofline,
        "kv_seconds_per_token": model.kv_bytes / (chip.bandwidth * per_replica),
        "kv_capacity": int(free / model.kv_bytes),
        "prefill_tokens_per_s": peak * per_replica / (2 * model.parameters),
        "migrate_tokens_per_s": NETWORK * per_replica / model.kv_bytes,
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

    def simulate(self, schedule: str | Callable[[], Schedule], **options: Any) -> Simulation:
        """Simulates a schedule, by name or made by a function, to the end.

        ``concurrency``: trajectories that run at once, on all replicas together; default: one batch.
        """
        concurrency = options.pop("concurrency", self.batch)
        if isinstance(schedule, str):
            replicas = self.cluster.replicas
            made = make_schedule(schedule, self.batch, self.group, concurrency, replicas, **options)
        else:
            made = schedule()
        simulation = Simulation(
            made,
            self.cluster,
            LognormalPlans(self.workload, SEED),
            updates=self.updates,
            warmup=self.warmup,
        )
        simulation.run()
        return simulation

    def run(self, schedule: str | Callable[[], Schedule], **options: Any) -> SimulationReport:
        """The report of :meth:`simulate`."""
        return make_report(self.simulate(schedule, **options), str(schedule))

    def on(self, **changes: Any) -> Setting:
        """The same on a changed cluster."""
        cluster = Cluster(**{**self.cluster.model_dump(), **changes})
        return dataclasses.replace(self, cluster=cluster)


def mean_update(setting: Setting) -> float:
    """Seconds of a synchronous update."""
    return setting.run("sync").update_s["mean"]


def calibrate(
    setting: Setting,
    seconds: float,
    *,
    measure: Callable[[Setting], float] = mean_update,
    updates: int = 3,
) -> Setting:
    """Sets the decode step so that a baseline update takes so long.

    Args:
        setting: machines and lengths.
        seconds: of the paper's baseline.
        measure: seconds of that baseline, simulated.
        updates: that are simulated for it.
    """
    short = dataclasses.replace(setting, updates=updates, warmup=0)
    rest = measure(short.on(step_seconds=1e-9))
    for _ in range(4):
        factor = (seconds - rest) / (measure(short) - rest)
        short = short.on(step_seconds=short.cluster.step_seconds * factor)
        if abs(factor - 1) < 1e-3:
            break
    return setting.on(step_seconds=short.cluster.step_seconds)


@dataclasses.dataclass(frozen=True)
class Row:
    """One line: what, the paper's value (or range), the simulated one, how many decimals.

    ``given``: the baseline, which was calibrated or is what others are divided by.
    """

    what: str
    paper: float | tuple[float, float] | None
    simulated: float
    digits: int = 2
    given: bool = False

    @property
    def fits(self) -> bool | None:
        """None where there is nothing to compare with."""
        if self.paper is None or self.given:
            return None
        low, high = self.paper if isinstance(self.paper, tuple) else (self.paper, self.paper)
        return low * (1 - FITS) <= self.simulated <= high * (1 + FITS)

    @property
    def published(self) -> str:
        """The paper's value as text."""
        if isinstance(self.paper, tuple):
            return " to ".join(f"{value:.{self.digits}f}" for value in self.paper)
        return "" if self.paper is None else f"{self.paper:.{self.digits}f}"

    @property
    def off(self) -> str:
        """By how much the simulation differs from the paper."""
        if self.paper is None or isinstance(self.paper, tuple) or self.given:
            return ""
        return f"{self.simulated / self.paper - 1:+.0%}"


def render(title: str, rows: Sequence[Row]) -> Table:
    table = Table(title=title, title_justify="left", min_width=78)
    table.add_column("what")
    for head in ("paper", "simulated", "off by", "fits"):
        table.add_column(head, justify="right")
    for row in rows:
        verdict = {None: "given" if row.given else "", True: "yes", False: "NO"}[row.fits]
        table.add_row(row.what, row.published, f"{row.simulated:.{row.digits}f}", row.off, verdict)
    return table


@dataclasses.dataclass(frozen=True)
class Headline:
    """What a paper is quoted for: system and setting, its value, the simulated one, why that is less."""

    what: str
    paper: float
    simulated: float
    why: str = ""

    @property
    def reached(self) -> bool:
        """At or above the paper's value, in two decimals as papers print it."""
        return round(self.simulated, 2) >= self.paper


@dataclasses.dataclass(frozen=True)
class Found:
    """What was simulated for a paper: tables by title, and headlines."""

    tables: dict[str, list[Row]]
    headlines: list[Headline]


def render_headlines(headlines: Sequence[Headline]) -> Table:
    table = Table(title="Headlines (simulated)", title_justify="left", min_width=78)
    table.add_column("what")
    for head in ("paper", "simulated", "reached"):
        table.add_column(head, justify="right")
    table.add_column("why not")
    for line in headlines:
        numbers = (f"{line.paper:.2f}x", f"{line.simulated:.2f}x")
        verdict = ("yes", "") if line.reached else ("NO", line.why)
        table.add_row(line.what, *numbers, *verdict)
    return table
