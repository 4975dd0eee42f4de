"""The doctor's parts: limits, packages, trials."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from agentic_gym.doctor import (
    Diagnosis,
    Package,
    Trial,
    attempt,
    look_at_machine,
    look_at_packages,
    render,
    usable_cores,
    usable_memory,
)
from agentic_gym.errors import SandboxUnavailable


@pytest.mark.parametrize(
    ("quota", "cores"),
    [
        ("", 8),
        ("max 100000\n", 8),
        ("200000 100000\n", 2),
        ("50000 100000", 0.5),
        ("9000000 100000", 8),
    ],
)
def test_cores_are_what_the_cgroup_grants(quota: str, cores: float) -> None:
    assert usable_cores(8, quota) == cores


def test_memory_is_what_the_cgroup_grants() -> None:
    meminfo = "MemTotal:       2048 kB\nMemFree:        1 kB\n"
    assert usable_memory(meminfo, "max\n") == 2048 * 1024
    assert usable_memory(meminfo, "1000\n") == 1000
    assert usable_memory("", "") == 0


def test_packages_are_compared_with_what_is_needed() -> None:
    found = {
        package.name: package
        for package in look_at_packages(
            [
                "pytest>=8",
                "rich<1",
                "no-such-package-of-ours>=2; extra == 'train'",
                "gymnasium; python_version < '3'",
            ]
        )
    }
    assert found["pytest"].ok
    assert not found["pytest"].extra
    assert found["rich"].installed
    assert not found["rich"].ok
    assert found["no-such-package-of-ours"] == Package(
        "no-such-package-of-ours", ">=2", None, "train", ok=False
    )
    assert "gymnasium" not in found


def test_a_trial_keeps_the_error() -> None:
    def broken() -> dict[str, str]:
        raise SandboxUnavailable("no user namespaces")

    trial = attempt(broken)
    assert not trial.works
    assert trial.facts == {"error": "SandboxUnavailable: no user namespaces"}
    assert attempt(lambda: {"network": "none"}).facts == {"network": "none"}


def test_health_needs_the_core_and_a_sandbox() -> None:
    core = Package("rich", ">=1", "2", "", ok=True)
    extra = Package("torch", ">=2", None, "train", ok=False)
    works = Trial(True, {}, 0.1)
    healthy = Diagnosis({}, (core, extra), {"bubblewrap": works}, {})
    assert healthy.healthy
    assert not replace(healthy, packages=(replace(core, ok=False),)).healthy
    assert not replace(healthy, sandboxes={"bubblewrap": Trial(False, {}, 0.1)}).healthy


def test_rendering_shows_every_fact_as_written() -> None:
    diagnosis = Diagnosis(
        {"memory_gib": 3.5},
        (Package("torch", ">=2", "1", "train", ok=False),),
        {"bubblewrap": Trial(False, {"error": "[bold]why[/x]"}, 0.25)},
        {"transformers": Trial(True, {"devices": "cpu"}, 1.0)},
    )
    console = Console(file=io.StringIO(), width=120)
    console.print(*render(diagnosis))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    for fact in (
        "memory gib",
        "3.5",
        "1 (does not fit)",
        "[bold]why[/x]",
        "does not work (0.25 s)",
    ):
        assert fact in text


def test_the_machine_is_described() -> None:
    machine = look_at_machine()
    assert float(machine["cores"]) > 0
    assert machine["python"]
