"""The parts of ``benchmarks/paper_tables.py`` that could quietly say something wrong."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
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
def load(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Imports a script of the folder anew."""
    monkeypatch.syspath_prepend(FOLDER)
    for name in [name for name in sys.modules if name.startswith("paper_")]:
        monkeypatch.delitem(sys.modules, name)
    return importlib.import_module


@pytest.mark.parametrize("fraction", [0.0, 0.25, 0.5])
def test_a_share_of_stale_trajectories_bounds_what_is_launched_between_two_publishes(
    load: Callable[[str], ModuleType], fraction: float
) -> None:
    parts = 4
    schedule = load("paper_verl").StreamedParts(
        8, 4, parts=parts, fraction=fraction, max_concurrent=10**6
    )
    since: list[int] = []  # launched since the last publish, and untrained at it
    launched = trained = at_publish = 0
    handle = schedule.handle

    def count(event: base.Event) -> list[base.Action]:
        nonlocal launched, trained, at_publish
        trained += 8 * isinstance(event, base.Trained)
        if isinstance(event, base.Trained) and event.version % parts == 0:
            at_publish = trained
        actions: list[base.Action] = handle(event)
        published = any(isinstance(action, base.Publish) for action in actions)
        assert published == (isinstance(event, base.Trained) and event.version % parts == 0)
        launched += sum(a.size for a in actions if isinstance(a, base.Launch))
        since.append(launched - at_publish)
        return actions

    schedule.handle = count
    simulation = Simulation(
        schedule,
        Cluster(replicas=2, train_seconds=5.0),
        LognormalPlans(Workload(median_tokens=300, max_tokens=3000)),
        updates=5 * parts,
    )
    simulation.run()
    assert max(since) == 32 + 4 * int(8 * fraction)
    # Without stale ones each is trained by one of the parts before the next publish.
    assert (max(simulation.record.staleness) >= parts) == (fraction > 0)


def test_calibration_hits_the_row_that_it_is_given(load: Callable[[str], ModuleType]) -> None:
    settings = load("paper_settings")
    cluster = settings.machine(settings.H800, settings.QWEN_7B, rollout=4, per_replica=1, train=4)
    setting = settings.Setting(cluster, settings.lengths(2000), 32, 4, updates=2)
    found = settings.calibrate(setting, 40.0, updates=2)
    assert found.run("sync").update_s["mean"] == pytest.approx(40.0, rel=2e-3)
    assert found.updates == 2
    assert found.cluster.model_dump() | {"step_seconds": 0} == cluster.model_dump() | {
        "step_seconds": 0
    }


def test_a_machine_has_the_roofline_of_its_accelerator(load: Callable[[str], ModuleType]) -> None:
    settings = load("paper_settings")
    batches = [
        settings.machine(chip, settings.QWEN_7B, rollout=2, per_replica=2, train=2).roofline_batch
        for chip in (settings.H800, settings.H20)
    ]
    # 2 FLOPs and 2 bytes for each parameter: 0.4 of 989 or 148 TFLOP/s against 3.35 or 4 TB/s.
    assert batches == [118, 14]


@pytest.mark.parametrize(
    ("prompts", "seconds", "expected"),
    [
        (1.0, [1, 5, 2], 5),
        (1.0, [1] * 10 + [3] * 10, 2),  # the longest of each ten
        (1.25, [1, 2, 1, 1, 9, 1, 1, 1, 1, 7], (4 * 2 + 9) / 5),
        (1.5, [1, 2, 6, 3, 1, 5, 1, 1, 4, 90], (2 * 3 + 6) / 3),  # the tenth is in no whole cycle
        (1.125, [1] * 8 + [4, 50], (8 + 4) / 9),
    ],
)
def test_seconds_are_computed_as_the_artifact_plots_them(
    load: Callable[[str], ModuleType], prompts: float, seconds: list[float], expected: float
) -> None:
    assert load("paper_systems").figure_seconds(seconds, prompts) == pytest.approx(expected)


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
def test_what_fits(
    load: Callable[[str], ModuleType], row: dict[str, Any], fits: bool | None
) -> None:
    assert load("paper_settings").Row("x", **row).fits is fits


def test_a_misfit_is_marked_and_every_paper_has_a_note(
    load: Callable[[str], ModuleType], capsys: pytest.CaptureFixture[str]
) -> None:
    tables, settings = load("paper_tables"), load("paper_settings")
    assert set(tables.NOTES) == set(tables.PAPERS)
    row = settings.Row
    rows = [row("good", 1.0, 1.0), row("bad", 1.0, 2.0), row("?", None, 2.0)]
    Console(width=100).print(settings.render("x", rows))
    assert cells(capsys) == [
        ["good", "1.00", "1.00", "+0%", "yes"],
        ["bad", "1.00", "2.00", "+100%", "NO"],
        ["?", "", "2.00", "", ""],
    ]


def test_a_headline_says_why_only_where_it_is_not_reached(
    load: Callable[[str], ModuleType], capsys: pytest.CaptureFixture[str]
) -> None:
    settings = load("paper_settings")
    values = [("above", 3.0), ("at", 1.996), ("below", 1.994)]
    lines = [settings.Headline(what, 2.0, value, "because") for what, value in values]
    Console(width=100).print(settings.render_headlines(lines))
    assert cells(capsys) == [
        ["above", "2.00x", "3.00x", "yes", ""],
        ["at", "2.00x", "2.00x", "yes", ""],
        ["below", "2.00x", "1.99x", "NO", "because"],
    ]


def cells(capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    """Of the table that was printed, without its head."""
    lines = capsys.readouterr().out.splitlines()
    return [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines if "│" in line]
