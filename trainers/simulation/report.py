"""What a simulated run says: throughput, waits, idleness, staleness, and where every trajectory went."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rich.table import Table

from agentic_gym.metrics import percentiles
from agentic_gym.trainers.simulation.driver import Simulation

Quantiles = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class SimulationReport:
    """Measured over the updates after the warm-up; every figure is simulated.

    Attributes:
        schedule: its name.
        updates: measured.
        seconds: simulated, from the end of the warm-up to the end of the last update.
        tokens_per_s: sampled tokens trained, a second.
        generated_per_s: tokens sampled, a second, whatever became of them: more than are trained while a
            buffer fills up, and where something is dropped.
        context_tokens_per_s: the same with prompts and observations.
        trajectories_per_s: trained, a second.
        update_s: seconds of an update, from the end of the one before: mean, p50, p90, p99.
        replicas: shares of the replicas' time: busy, publish, train (helping the trainer), dead, idle.
        trainer: shares of the trainer's time: busy, idle.
        kv_use: mean share of the KV cache that running requests fill.
        preemptions: of requests, by a full KV cache.
        staleness: of trained trajectories, in updates: mean, p50, p90, p99, max.
        staleness_counts: trained trajectories by staleness.
        mixed_share: of the trained trajectories, those that several versions sampled.
        wait_s: seconds from launch until the first request is admitted: mean, p50, p90, p99.
        parked_share: of the time from launch to batch, the part that trained trajectories were parked in:
            the wait in the long queue.
        ledger: trajectories launched, and where they are at the end of the run.
        dropped: by reason.
    """

    schedule: str
    updates: int
    seconds: float
    tokens_per_s: float
    generated_per_s: float
    context_tokens_per_s: float
    trajectories_per_s: float
    update_s: Quantiles
    replicas: Quantiles
    trainer: Quantiles
    kv_use: float
    preemptions: int
    staleness: Quantiles
    staleness_counts: Mapping[int, int]
    mixed_share: float
    wait_s: Quantiles
    parked_share: float
    ledger: Mapping[str, int]
    dropped: Mapping[str, int]

    def to_dict(self) -> dict[str, Any]:
        """JSON-able, and says that it is simulated."""
        return {"simulated": True, **asdict(self)}

    def render(self) -> Table:
        """A table for people."""
        table = Table(title=f"{self.schedule}: simulated", title_justify="left")
        table.add_column("what")
        table.add_column("simulated", justify="right")
        rows = {
            "trained tokens / s": f"{self.tokens_per_s:,.0f}",
            "sampled tokens / s": f"{self.generated_per_s:,.0f}",
            "with prompts and observations": f"{self.context_tokens_per_s:,.0f}",
            "trajectories / s": f"{self.trajectories_per_s:,.2f}",
            "seconds an update, mean": f"{self.update_s['mean']:,.1f}",
            "  P50 / P90 / P99": _quantiles(self.update_s),
            **{f"replicas, {k}": f"{v:.1%}" for k, v in self.replicas.items() if v or k == "idle"},
            **{f"trainer, {k}": f"{v:.1%}" for k, v in self.trainer.items()},
            "KV cache filled": f"{self.kv_use:.1%}",
            "preemptions": f"{self.preemptions:,}",
            "staleness, mean": f"{self.staleness['mean']:.2f}",
            "  P50 / P90 / P99 / max": f"{_quantiles(self.staleness, 0)} / {self.staleness['max']:.0f}",
            "sampled by several versions": f"{self.mixed_share:.1%}",
            "wait for a replica, mean seconds": f"{self.wait_s['mean']:,.1f}",
            "  P50 / P90 / P99 ": _quantiles(self.wait_s),
            "parked, of launch to batch": f"{self.parked_share:.1%}",
            **{f"ledger: {k}": f"{v:,}" for k, v in self.ledger.items()},
            **{f"dropped: {k}": f"{v:,}" for k, v in self.dropped.items()},
        }
        for what, value in rows.items():
            table.add_row(what, value)
        return table


def make_report(simulation: Simulation, name: str) -> SimulationReport:
    """The report of a run that is over."""
    record, ledger, cluster = simulation.record, simulation.ledger, simulation.cluster
    seconds = record.ended - record.began
    before, after = record.use, simulation.use()
    whole = seconds * cluster.replicas
    shares = {
        "busy": after.busy - before.busy,
        "publish": after.publish - before.publish,
        "train": after.lent - before.lent,
        "dead": after.dead - before.dead,
    }
    shares = {what: value / whole for what, value in shares.items()}
    shares["idle"] = max(0.0, 1 - sum(shares.values()))
    counts = {state: count for state, count in sorted(ledger.counts.items()) if count}
    return SimulationReport(
        schedule=name,
        updates=len(record.updates),
        seconds=seconds,
        tokens_per_s=record.tokens / seconds,
        generated_per_s=(after.sampled - before.sampled) / seconds,
        context_tokens_per_s=record.context_tokens / seconds,
        trajectories_per_s=record.trajectories / seconds,
        update_s={"mean": seconds / len(record.updates), **percentiles(record.updates)},
        replicas=shares,
        trainer={
            "busy": record.trainer_busy / seconds,
            "idle": 1 - record.trainer_busy / seconds,
        },
        kv_use=(after.kv_tokens - before.kv_tokens) / (whole * cluster.kv_capacity),
        preemptions=after.preemptions - before.preemptions,
        staleness=count_quantiles(record.staleness),
        staleness_counts=dict(sorted(record.staleness.items())),
        mixed_share=record.mixed / record.trajectories,
        wait_s={
            "mean": sum(record.waits) / len(record.waits),
            **percentiles(record.waits),
        },
        parked_share=record.parked / record.lives if record.lives else 0.0,
        ledger={"launched": ledger.launched, **counts},
        dropped=dict(ledger.dropped.most_common()),
    )


def count_quantiles(counts: Counter[int]) -> dict[str, float]:
    """Mean, P50, P90, P99 and maximum of whole numbers that were counted; no interpolation.

    >>> count_quantiles(Counter({0: 90, 4: 10}))
    {'mean': 0.4, 'p50': 0.0, 'p90': 0.0, 'p99': 4.0, 'max': 4.0}
    """
    total = counts.total()
    found = {"mean": sum(value * count for value, count in counts.items()) / total}
    for level in (50, 90, 99):
        seen, wanted = 0, math.ceil(total * level / 100)
        for value in sorted(counts):
            seen += counts[value]
            if seen >= wanted:
                found[f"p{level}"] = float(value)
                break
    found["max"] = float(max(counts))
    return found


def _quantiles(values: Quantiles, digits: int = 1) -> str:
    return " / ".join(f"{values[level]:,.{digits}f}" for level in ("p50", "p90", "p99"))
