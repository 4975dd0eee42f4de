"""Control groups: a limit of memory and processes for a whole sandbox, where the user may make one.

Without them the limits are per process. Nothing is mounted and nobody's process is moved: a group is made
below the one that this process is in, in version 2 only where the controllers are already delegated.
"""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_PARENT = "agentic-gym"
_OWN_MEMORY = 96 * 2**20  # the supervisor and the runner, beside what the agent may have
_OWN_PROCESSES = 16  # bwrap, the supervisor and the runner, and room for them to fork


@dataclass(frozen=True)
class Cgroup:
    """The groups of one sandbox.

    Attributes:
        folders: one in version 2, one a controller in version 1.
        events: file with the ``oom_kill`` counter.
    """

    folders: tuple[Path, ...]
    events: Path

    def join_files(self) -> list[str]:
        """A process enters the groups by writing ``0`` to each of these."""
        return [str(folder / "cgroup.procs") for folder in self.folders]

    def oom_kills(self) -> int:
        """How many processes the memory limit has ended."""
        with contextlib.suppress(OSError):
            for line in self.events.read_text().splitlines():
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
        return 0

    def remove(self, timeout_s: float = 2.0) -> bool:
        """Waits until no process is left and removes the groups; whether that worked."""
        return all(remove_folder(folder, timeout_s) for folder in self.folders)


def remove_folder(folder: Path, timeout_s: float = 0.0) -> bool:
    """Removes one group once it is empty."""
    give_up = time.monotonic() + timeout_s
    while True:
        try:
            folder.rmdir()
            return True
        except FileNotFoundError:
            return True
        except OSError:
            if time.monotonic() > give_up:
                return False
            time.sleep(0.002)


def is_ours(folder: Path) -> bool:
    """Whether a path is a group that this module makes."""
    return folder.is_relative_to(_ROOT) and folder.parent.name == _PARENT


def create(memory_bytes: int, max_processes: int) -> Cgroup | None:
    """Makes the groups of one sandbox, or None where this user may not."""
    name = uuid.uuid4().hex
    processes = max_processes + _OWN_PROCESSES
    for make in (_create_v2, _create_v1):
        made: list[Path] = []
        with contextlib.suppress(OSError):
            return make(name, memory_bytes + _OWN_MEMORY, processes, made.append)
        for folder in made:
            remove_folder(folder)
    return None


def _create_v2(
    name: str, memory_bytes: int, processes: int, made: Callable[[Path], None]
) -> Cgroup | None:
    parent = _ROOT / _own_path("") / _PARENT
    controllers = (parent.parent / "cgroup.subtree_control").read_text().split()
    if not {"memory", "pids"} <= set(controllers):
        raise PermissionError("memory and pids are not delegated")
    parent.mkdir(exist_ok=True)
    (parent / "cgroup.subtree_control").write_text("+memory +pids")
    folder = parent / name
    folder.mkdir()
    made(folder)
    (folder / "memory.max").write_text(str(memory_bytes))
    with contextlib.suppress(OSError):
        (folder / "memory.swap.max").write_text("0")
    (folder / "pids.max").write_text(str(processes))
    return Cgroup((folder,), folder / "memory.events")


def _create_v1(
    name: str, memory_bytes: int, processes: int, made: Callable[[Path], None]
) -> Cgroup | None:
    folders = []
    for controller in ("memory", "pids"):
        folder = _ROOT / controller / _own_path(controller) / _PARENT / name
        if not (_ROOT / controller / "cgroup.procs").exists():
            raise PermissionError(f"no {controller} controller")
        os.makedirs(folder)
        made(folder)
        folders.append(folder)
    memory, pids = folders
    (memory / "memory.limit_in_bytes").write_text(str(memory_bytes))
    with contextlib.suppress(OSError):  # only where swap is accounted
        (memory / "memory.memsw.limit_in_bytes").write_text(str(memory_bytes))
    (pids / "pids.max").write_text(str(processes))
    return Cgroup((memory, pids), memory / "memory.oom_control")


def _own_path(controller: str) -> str:
    """This process's group under one version 1 controller, or in version 2 with ``""``."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(",") and (controller or not controllers):
            return path.strip("/")
    raise FileNotFoundError(f"not in a {controller or 'version 2'} group")
