"""The doctor's parts: limits, packages, trials."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from agentic_gym.doctor import (
    Diagnosis,
    Package,
    Trial,
    attempt,
    cgroup_limits,
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
        ("-1 100000", 8),
    ],
)
def test_cores_are_what_the_cgroup_grants(quota: str, cores: float) -> None:
    assert usable_cores(8, quota) == cores


def test_memory_is_what_the_cgroup_grants() -> None:
    meminfo = "MemTotal:       2048 kB\nMemFree:        1 kB\n"
    assert usable_memory(meminfo, "max\n") == 2048 * 1024
    assert usable_memory(meminfo, "1000\n") == 1000
    assert usable_memory("", "") == 0


@pytest.mark.parametrize(
    ("files", "cores", "memory"),
    [
        ({}, 8, 2**30),
        ({"cpu.max": "200000 100000\n", "memory.max": "4096\n"}, 2, 4096),
        ({"cpu.max": "max 100000\n", "memory.max": "max\n"}, 8, 2**30),
        (
            {
                "cpu/cpu.cfs_quota_us": "150000\n",
                "cpu/cpu.cfs_period_us": "100000\n",
                "memory/memory.limit_in_bytes": "8192\n",
            },
            1.5,
            8192,
        ),
        (
            {
                "cpu/cpu.cfs_quota_us": "-1\n",
                "cpu/cpu.cfs_period_us": "100000\n",
                "memory/memory.limit_in_bytes": f"{2**63 - 4096}\n",
            },
            8,
            2**30,
        ),
    ],
    ids=["none", "version 2", "version 2, no limit", "version 1", "version 1, no limit"],
)
def test_limits_of_either_version_are_read(
    files: dict[str, str], cores: float, memory: int, tmp_path: Path
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    quota, limit = cgroup_limits(tmp_path)
    assert usable_cores(8, quota) == cores
    assert usable_memory(f"MemTotal: {2**20} kB\n", limit) == memory


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
