"""Reports and pictures of simulated runs."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any
from xml.etree import ElementTree

import pytest
from rich.console import Console

from agentic_gym.trainers.schedules.registry import make_schedule
from agentic_gym.trainers.simulation.cluster import Cluster
from agentic_gym.trainers.simulation.driver import Simulation
from agentic_gym.trainers.simulation.gantt import COLOURS, draw, gantt
from agentic_gym.trainers.simulation.report import count_quantiles, make_report
from agentic_gym.trainers.simulation.workload import LognormalPlans, Workload


def run(*, picture: bool = False, replicas: int = 3, **cluster: float) -> Simulation:
    simulation = Simulation(
        make_schedule("bounded_async", 16, 4, 48, replicas, max_staleness=2),
        Cluster(replicas=replicas, train_seconds=20.0, **cluster),
        LognormalPlans(Workload(median_tokens=300, max_tokens=4000)),
        updates=6,
        warmup=1,
        picture=picture,
    )
    simulation.run()
    return simulation


def test_quantiles_of_counts_are_values_that_occur() -> None:
    counts = Counter({0: 50, 1: 49, 7: 1})
    assert count_quantiles(counts) == {
        "mean": pytest.approx(0.56),
        "p50": 0.0,
        "p90": 1.0,
        "p99": 1.0,
        "max": 7.0,
    }
    assert count_quantiles(Counter({3: 1}))["p50"] == 3.0


def test_the_report_is_consistent_and_says_that_it_is_simulated() -> None:
    simulation = run()
    report = make_report(simulation, "bounded_async")
    written = json.loads(json.dumps(report.to_dict()))
    assert written["simulated"] is True
    assert report.updates == 5
    assert sum(report.staleness_counts.values()) == 80
    assert report.trajectories_per_s == pytest.approx(80 / report.seconds)
    assert report.update_s["mean"] * 5 == pytest.approx(report.seconds)
    assert report.staleness["max"] <= 2
    assert 0 < report.mixed_share < 1
    assert 0 < report.kv_use < 1
    assert sum(report.replicas.values()) == pytest.approx(1)
    counts = dict(report.ledger)
    assert counts.pop("launched") == sum(counts.values())
    console = Console(width=100)
    with console.capture() as captured:
        console.print(report.render())
    text = captured.get()
    assert "bounded_async: simulated" in text
    for word in ("trained tokens / s", "staleness", "replicas, idle", "ledger: trained"):
        assert word in text


@pytest.mark.parametrize(("name", "wasted"), [("sync", False), ("tail_batching", True)])
def test_what_is_generated_is_trained_unless_it_is_dropped(name: str, wasted: bool) -> None:
    options: dict[str, Any] = {"carry": "restart", "response_redundancy": 1.5} if wasted else {}
    simulation = Simulation(
        make_schedule(name, 16, 4, 48, 3, **options),
        Cluster(replicas=3),
        LognormalPlans(Workload(median_tokens=300, max_tokens=4000)),
        updates=3,
    )
    simulation.run()
    report = make_report(simulation, name)
    extra = report.generated_per_s / report.tokens_per_s - 1
    assert extra > 0.05 if wasted else extra == pytest.approx(0, abs=1e-6)


def test_a_picture_shows_what_is_in_its_window() -> None:
    rows = {
        "trainer": [(0.0, 5.0, "train"), (9.0, 30.0, "train")],
        "replica <0>": [(0.0, 12.0, "busy"), (12.0, 14.0, "publish"), (14.0, 99.0, "idle")],
    }
    svg = gantt(rows, 10.0, 20.0, title="a & b")
    root = ElementTree.fromstring(svg)
    space = "{http://www.w3.org/2000/svg}"
    bars = [
        (title.text, float(rect.get("width", "0")))
        for rect in root.iter(f"{space}rect")
        if (title := rect.find(f"{space}title")) is not None
    ]
    scale = (960 - 84 - 12) / 10
    assert [name for name, _ in bars] == [
        "train: 9.0 to 30.0 s",
        "busy: 0.0 to 12.0 s",
        "publish: 12.0 to 14.0 s",
    ]
    assert [width / scale for _, width in bars] == pytest.approx([10, 2, 2], abs=0.01)
    texts = [text.text for text in root.iter(f"{space}text")]
    assert {"a & b", "replica <0>", "10 s", "20 s", *COLOURS} <= set(texts)
    with pytest.raises(ValueError, match="is empty"):
        gantt(rows, 5.0, 5.0, title="nothing")


def test_bars_of_a_run_agree_with_what_was_measured() -> None:
    simulation = run(picture=True)
    total: Counter[str] = Counter()
    for replica in simulation.fleet.replicas.values():
        assert replica.bars is not None
        times = [at for at, _ in replica.bars]
        assert times == sorted(times)
        ends = [*times[1:], simulation.now]
        for (start, what), end in zip(replica.bars, ends, strict=True):
            total[what] += end - start  # type: ignore[assignment]
    use = simulation.use()
    assert total["busy"] == pytest.approx(use.busy)
    assert total["publish"] == pytest.approx(use.publish)
    svg = draw(simulation, "bounded_async", 0.0, 10.0**9)
    assert "bounded_async: simulated" in svg
    assert len(re.findall("train:", svg)) == 6


def test_a_large_cluster_is_drawn_by_a_sample() -> None:
    simulation = run(picture=True, replicas=100)
    drawn = [r.number for r in simulation.fleet.replicas.values() if r.bars is not None]
    assert len(drawn) <= 24
    assert drawn[0] == 0
    assert drawn[-1] > 90


def test_dead_replicas_are_drawn_dead() -> None:
    simulation = run(picture=True, death_hours=0.02, repair_seconds=30.0)
    assert simulation.use().dead > 0
    assert COLOURS["dead"] in draw(simulation, "x", 0.0, 10.0**9).split("</svg>")[0]
    bars = [bar for r in simulation.fleet.replicas.values() for bar in r.bars or ()]
    assert any(what == "dead" for _, what in bars)
