"""``agentic-gym doctor``: what works on this machine, found by trying it.

A sandbox counts as working when one ran, and an engine when its code was imported; nothing is concluded
from a version or a file alone.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from packaging.requirements import Requirement

from agentic_gym.cli import Command
from agentic_gym.config import StrictConfig, parse_flags
from agentic_gym.sandbox.select import NAMES, select_backend

if TYPE_CHECKING:
    from rich.table import Table

ENGINES = {
    "transformers": ("agentic_gym.engines.transformers:TransformersEngine", "torch"),
    "openai": ("agentic_gym.engines.openai:OpenAIChat", "httpx"),
}
"""Engines by name: the class, and what it runs on. Importing both is the test."""

_GIB = 2**30
_CGROUP = Path("/sys/fs/cgroup")


class DoctorConfig(StrictConfig):
    """Say what is installed, which sandbox works and what it isolates, and which engines load."""

    format: Literal["text", "json"] = "text"
    """Text for people, or one JSON object."""


@dataclass(frozen=True, slots=True)
class Package:
    """A package that agentic-gym can use.

    Attributes:
        name: as pip spells it.
        needed: version specifier, "" for any.
        installed: version, or None.
        extra: the extra that asks for it, or "" for the core.
        ok: installed in a version that fits.
    """

    name: str
    needed: str
    installed: str | None
    extra: str
    ok: bool


@dataclass(frozen=True, slots=True)
class Trial:
    """Something that was tried.

    Attributes:
        works: whether it did.
        facts: what is known of it, or ``error``.
        seconds: how long the trial took.
    """

    works: bool
    facts: Mapping[str, str]
    seconds: float


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Everything that the doctor found.

    Attributes:
        machine: facts by name: versions, cores, memory, disk.
        packages: core packages first, then by extra.
        sandboxes: by backend name; ``facts`` say what is isolated.
        engines: by name.
    """

    machine: Mapping[str, str | int | float]
    packages: tuple[Package, ...]
    sandboxes: Mapping[str, Trial]
    engines: Mapping[str, Trial]

    @property
    def healthy(self) -> bool:
        """Whether environments can be played: core packages are there and a sandbox works."""
        core = all(package.ok for package in self.packages if not package.extra)
        return core and any(trial.works for trial in self.sandboxes.values())


def diagnose() -> Diagnosis:
    """Looks at this machine; takes some seconds, since sandboxes and engines are tried."""
    return Diagnosis(
        machine=look_at_machine(),
        packages=look_at_packages(importlib.metadata.requires("agentic-gym") or []),
        sandboxes={
            name: attempt(lambda name=name: select_backend(name).probe())  # type: ignore[misc]
            for name in NAMES
            if name not in {"auto", "unsafe"}  # the one is no backend, the other isolates nothing
        },
        engines={
            name: attempt(lambda where=where: _load_engine(*where))  # type: ignore[misc]
            for name, where in ENGINES.items()
        },
    )


def attempt(function: Callable[[], Mapping[str, str]]) -> Trial:
    """Calls a function that returns facts or raises."""
    began = time.perf_counter()
    try:
        facts, works = dict(function()), True
    except Exception as error:  # whatever it is, the other trials go on
        facts, works = {"error": f"{type(error).__name__}: {error}"}, False
    return Trial(works, facts, round(time.perf_counter() - began, 3))


def look_at_machine() -> dict[str, str | int | float]:
    """Versions, and the cores, memory and disk that this process may use."""
    quota, limit = cgroup_limits(_CGROUP)
    return {
        "agentic_gym": importlib.metadata.version("agentic-gym"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "user": "root" if os.geteuid() == 0 else f"uid {os.geteuid()}",
        "cores": usable_cores(
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1,
            quota,
        ),
        "memory_gib": round(usable_memory(_read(Path("/proc/meminfo")), limit) / _GIB, 1),
        "disk_free_gib": round(shutil.disk_usage(".").free / _GIB, 1),
        "tmp_free_gib": round(shutil.disk_usage(tempfile.gettempdir()).free / _GIB, 1),
    }


def cgroup_limits(root: Path) -> tuple[str, str]:
    """Limits of processor time and memory as ``cpu.max`` and ``memory.max`` write them, "" for none.

    Args:
        root: where control groups are mounted, of either version.
    """
    old = (_read(root / "cpu" / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period"))
    quota = _read(root / "cpu.max") or " ".join(old).strip()
    return quota, _read(root / "memory.max") or _read(root / "memory" / "memory.limit_in_bytes")


def usable_cores(affinity: int, quota: str) -> float:
    """Cores that the scheduler grants.

    Args:
        affinity: cores that the process may run on.
        quota: content of the cgroup's ``cpu.max``, or "".
    """
    limit, _, period = quota.strip().partition(" ")
    if not limit.isdigit() or not period.isdigit():
        return affinity
    return round(min(affinity, int(limit) / int(period)), 2)


def usable_memory(meminfo: str, limit: str) -> int:
    """Bytes of memory, at most the cgroup's limit.

    Args:
        meminfo: content of ``/proc/meminfo``, or "" where there is none.
        limit: content of the cgroup's ``memory.max``, or "".
    """
    total = next(
        (
            int(line.split()[1]) * 1024
            for line in meminfo.splitlines()
            if line.startswith("MemTotal")
        ),
        0,
    )
    return min(total, int(limit)) if limit.strip().isdigit() else total


def look_at_packages(requirements: list[str]) -> tuple[Package, ...]:
    """What the requirements of a distribution ask for, and what is installed.

    Args:
        requirements: as in the metadata: ``name>=1; extra == "train"``.
    """
    packages = []
    for text in requirements:
        requirement = Requirement(text)
        extra = _extra_of(requirement)
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue  # for another platform
        try:
            installed = importlib.metadata.version(requirement.name)
        except importlib.metadata.PackageNotFoundError:
            installed = None
        fits = installed is not None and requirement.specifier.contains(installed, prereleases=True)
        packages.append(
            Package(requirement.name, str(requirement.specifier), installed, extra, fits)
        )
    return tuple(sorted(packages, key=lambda package: (package.extra, package.name)))


def render(diagnosis: Diagnosis) -> list[Table]:
    """Tables for people."""
    from rich.table import Table

    machine, packages = _grid("machine"), Table(title="packages", title_justify="left")
    for name, value in diagnosis.machine.items():
        _row(machine, name.replace("_", " "), str(value))
    for head in ("extra", "package", "needed", "installed"):
        packages.add_column(head)
    for package in diagnosis.packages:
        note = package.installed or "missing"
        if package.installed and not package.ok:
            note += " (does not fit)"
        _row(packages, package.extra or "(core)", package.name, package.needed, note)
    trials = [machine, packages]
    for title, found in (("sandboxes", diagnosis.sandboxes), ("engines", diagnosis.engines)):
        table = _grid(title)
        for name, trial in found.items():
            word = "works" if trial.works else "does not work"
            _row(table, name, f"{word} ({trial.seconds:.2f} s)")
            for key, value in trial.facts.items():
                _row(table, f"  {key}", value)
        trials.append(table)
    return trials


def run(argv: list[str]) -> int:
    """Prints the diagnosis; the status is 1 if no environment can be played here."""
    config = parse_flags(DoctorConfig, argv, prog="agentic-gym doctor")
    diagnosis = diagnose()
    if config.format == "json":
        print(json.dumps({"healthy": diagnosis.healthy, **asdict(diagnosis)}, indent=2))
    else:
        from rich.console import Console

        Console(file=sys.stdout).print(*render(diagnosis), sep="\n")
        print("ready" if diagnosis.healthy else "not ready: see what does not work above")
    return 0 if diagnosis.healthy else 1


def _load_engine(path: str, runs_on: str) -> dict[str, str]:
    module, _, name = path.partition(":")
    library = importlib.import_module(runs_on)
    engine = getattr(importlib.import_module(module), name)
    facts = {"class": f"{engine.__module__}.{engine.__qualname__}"}
    if runs_on == "torch":
        names = [library.cuda.get_device_name(i) for i in range(library.cuda.device_count())]
        facts["devices"] = ", ".join(["cpu", *names])
        facts["threads"] = str(library.get_num_threads())
    return facts


def _extra_of(requirement: Requirement) -> str:
    if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
        return ""
    extras = importlib.metadata.metadata("agentic-gym").get_all("Provides-Extra") or []
    return next((extra for extra in extras if requirement.marker.evaluate({"extra": extra})), "")


def _grid(title: str) -> Table:
    from rich.table import Table

    table = Table(title=title, title_justify="left", show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _row(table: Table, *cells: str) -> None:
    from rich.text import Text

    table.add_row(*(Text(cell) for cell in cells))


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


COMMAND = Command("doctor", "what is installed and which sandbox and engine work", run)
