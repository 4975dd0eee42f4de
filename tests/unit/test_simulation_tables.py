"""The parts of ``benchmarks/paper_tables.py`` that could quietly say something wrong."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from rich.console import Console

from agentic_gym.trainers.schedules import base
from agentic_gym.trainers.simulation.cluster import Cluster
from agentic_gym.trainers.simulation.driver import Simulation
from agentic_gym.trainers.simulation.workload import LognormalPlans, Workload

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.delitem(sys.modules, "paper_tables", raising=False)
    return importlib.import_module("paper_tables")


@pytest.mark.parametrize("fraction", [0.0, 0.25, 0.5])
def test_a_share_of_stale_trajectories_is_a_bound_on_what_is_untrained(
    tables: ModuleType, fraction: float
) -> None:
    schedule = tables.FractionalAsync(32, 4, fraction=fraction, concurrency=10**6)
    untrained: list[int] = []
    launched = trained = 0
    handle = schedule.handle

    def count(event: base.Event) -> list[base.Action]:
        nonlocal launched, trained
        actions: list[base.Action] = handle(event)
        trained += 32 * isinstance(event, base.Trained)
        launched += sum(a.size for a in actions if isinstance(a, base.Launch))
        untrained.append(launched - trained)
        return actions

    schedule.handle = count
    simulation = Simulation(
        schedule,
        Cluster(replicas=2, train_seconds=20.0),
        LognormalPlans(Workload(median_tokens=300, max_tokens=3000)),
        updates=5,
    )
    simulation.run()
    assert max(untrained) == 32 + 4 * int(8 * fraction)
    assert (max(simulation.record.staleness) > 0) == (fraction > 0)


def test_calibration_hits_the_row_that_it_is_given(tables: ModuleType) -> None:
    cluster = tables.machine(tables.H800, tables.QWEN_7B, rollout=4, per_replica=1, train=4)
    setting = tables.Setting(cluster, tables.lengths(2000), 32, 4, updates=2)
    found = tables.calibrate(setting, 40.0)
    assert found.run("sync").update_s["mean"] == pytest.approx(40.0, rel=2e-3)
    assert found.cluster.model_dump() | {"step_seconds": 0} == cluster.model_dump() | {
        "step_seconds": 0
    }


@pytest.mark.parametrize(
    ("row", "fits"),
    [
        ({"paper": 100.0, "simulated": 114.0}, True),
        ({"paper": 100.0, "simulated": 116.0}, False),
        ({"paper": 100.0, "simulated": 84.0}, False),
        ({"paper": (1.0, 1.2), "simulated": 1.37}, True),
        ({"paper": (1.0, 1.2), "simulated": 1.39}, False),
        ({"paper": None, "simulated": 1.0}, None),
        ({"paper": 1.0, "simulated": 5.0, "given": True}, None),
    ],
)
def test_what_fits(tables: ModuleType, row: dict[str, Any], fits: bool | None) -> None:
    assert tables.Row("x", **row).fits is fits


def test_a_misfit_is_marked_and_every_paper_has_a_note(
    tables: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    assert set(tables.NOTES) == set(tables.PAPERS)
    rows = [tables.Row("good", 1.0, 1.0), tables.Row("bad", 1.0, 2.0), tables.Row("?", None, 2.0)]
    Console(width=100).print(tables.render("x", rows))
    lines = capsys.readouterr().out.splitlines()
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines if "│" in line]
    assert cells == [
        ["good", "1.00", "1.00", "+0%", "yes"],
        ["bad", "1.00", "2.00", "+100%", "NO"],
        ["?", "", "2.00", "", ""],
    ]
