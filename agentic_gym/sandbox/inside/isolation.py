"""How processes are kept apart inside the sandbox, and how all of them are ended at once.

``Namespaces`` (bubblewrap) puts every shell and every test run in a process, mount and IPC namespace of
its own: killing its first process ends all others atomically, fork bombs included, and none of them can
see or signal the supervisor. ``Plain`` (no isolation at all, or a container that already isolates) has
only sessions and a loop over descendants.

Both make the workspace anew in a form that no process of the agent can reach around.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping
from typing import NoReturn

from agentic_gym.sandbox.inside import files, kernel

_PRIVATE = "/run/gym"  # the supervisor's own mounts; no other process sees them
_BASE = f"{_PRIVATE}/base"
_LAYER = f"{_PRIVATE}/layer"
_MAX_FILES = 100_000  # inodes of a writable layer: bounds the kernel memory that empty files take


class Limits:
    """Resource limits of everything that runs for the agent.

    Args:
        processes: of the whole sandbox.
        memory: bytes of address space per process; 0 where a cgroup limits the whole sandbox.
        disk: bytes of a writable layer, and so of one file.
    """

    def __init__(self, processes: int, memory: int, disk: int) -> None:
        self.processes = processes
        self.memory = memory
        self.disk = disk

    def apply(self) -> None:
        """Applies them to this process and all that it will start."""
        if self.processes:
            kernel.limit("NPROC", self.processes)
        if self.memory:
            kernel.limit("AS", self.memory)
        kernel.limit("FSIZE", self.disk)
        kernel.limit("CORE", 0)
        kernel.limit("NOFILE", 4096)


class Namespaces:
    """Namespaces and overlays; the caller holds CAP_SYS_ADMIN in the sandbox's user namespace."""

    workspace = "/workspace"
    base = _BASE

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._mounted = False

    def prepare(self) -> None:
        """Makes mounts possible for us and user namespaces impossible for anyone else."""
        kernel.unshare(kernel.CLONE_NEWNS)
        with open("/proc/sys/user/max_user_namespaces", "w") as file:
            file.write("0")

    def adopt(self) -> None:
        """Called by the test runner, which shares the supervisor's mounts: nothing to do."""

    def set_base(self, tree: Mapping[str, bytes]) -> None:
        """Replaces the base tree."""
        if os.path.ismount(_BASE):
            kernel.unmount(_BASE)
        os.makedirs(_BASE, exist_ok=True)
        os.makedirs(_LAYER, exist_ok=True)
        flags = kernel.MS_NOSUID | kernel.MS_NODEV
        size = max(self._limits.disk, 2 * sum(map(len, tree.values())) + 8192 * (len(tree) + 16))
        kernel.mount("base", _BASE, "tmpfs", flags, f"size={size},mode=755")
        files.write_new_tree(_BASE, tree)

    def fresh(self) -> None:
        """A new writable layer over the base, and new empty folders for temporary files."""
        flags = kernel.MS_NOSUID | kernel.MS_NODEV
        size = f"size={self._limits.disk},nr_inodes={_MAX_FILES}"
        if self._mounted:
            for folder in (self.workspace, "/tmp", "/dev/shm"):
                kernel.unmount(folder)
        self._mounted = True
        kernel.mount("layer", _LAYER, "tmpfs", flags, f"{size},mode=755")
        os.mkdir(f"{_LAYER}/upper")
        os.mkdir(f"{_LAYER}/work")
        layers = f"lowerdir={_BASE},upperdir={_LAYER}/upper,workdir={_LAYER}/work,userxattr"
        kernel.mount("workspace", self.workspace, "overlay", flags, layers)
        kernel.unmount(_LAYER)  # the overlay keeps it; nobody can write behind its back
        kernel.mount("tmp", "/tmp", "tmpfs", flags, f"{size},mode=1777")
        kernel.mount("shm", "/dev/shm", "tmpfs", flags, f"{size},mode=1777")

    def spawn(self, run: Callable[[], NoReturn]) -> int:
        """Starts ``run`` as the first process of its own namespaces; returns its pid."""
        pid = kernel.clone(kernel.CLONE_NEWPID | kernel.CLONE_NEWNS | kernel.CLONE_NEWIPC)
        if pid:
            return pid
        try:
            kernel.die_with_parent()  # a test run must not outlive a runner that is lost
            kernel.unmount(_BASE)
            flags = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
            kernel.mount("proc", "/proc", "proc", flags)
            with open("/proc/self/oom_score_adj", "w") as file:
                file.write("1000")  # the agent's processes go first, never the supervisor
            self._limits.apply()
            kernel.drop_capabilities()
            run()
        finally:
            _die("could not start a process")

    def end(self, pid: int) -> int:
        """Kills a process made by :meth:`spawn` and all in its namespace; returns its wait status."""
        os.kill(pid, signal.SIGKILL)
        return os.waitpid(pid, 0)[1]

    def leave(self) -> None:
        """The mounts go with the namespace."""


class Plain:
    """Sessions only: for ``unsafe``, where nothing is isolated.

    Args:
        workspace: an existing folder that this process may empty.
        limits: applied per process.
    """

    def __init__(self, workspace: str, limits: Limits) -> None:
        self.workspace = workspace
        self.base = f"{os.path.dirname(workspace)}/base"
        self._limits = limits
        self._spare: set[int] = set()

    def prepare(self) -> None:
        """Orphans become children of this process, so that they can be found and ended."""
        kernel.become_subreaper()

    adopt = prepare

    def spare(self, pid: int) -> None:
        """Keeps one child (the test runner) out of :meth:`end`."""
        self._spare = {pid}

    def set_base(self, tree: Mapping[str, bytes]) -> None:
        """Replaces the base tree."""
        shutil.rmtree(self.base, ignore_errors=True)
        os.makedirs(self.base)
        files.write_new_tree(self.base, tree)

    def fresh(self) -> None:
        """Empties the workspace and copies the base."""
        for entry in os.scandir(self.workspace):
            if entry.is_dir(follow_symlinks=False):
                _make_removable(entry.path)
                shutil.rmtree(entry.path)
            else:
                os.unlink(entry.path)
        shutil.copytree(self.base, self.workspace, dirs_exist_ok=True)

    def spawn(self, run: Callable[[], NoReturn]) -> int:
        """Starts ``run`` in its own session; returns its pid."""
        pid = os.fork()
        if pid:
            return pid
        try:
            os.setsid()
            self._limits.apply()
            run()
        finally:
            _die("could not start a process")

    def end(self, pid: int) -> int:
        """Kills all descendants of this process but the spared one; returns the status of ``pid``."""
        status: int | None = None
        give_up = time.monotonic() + 5.0
        while time.monotonic() < give_up:
            victims = _descendants(os.getpid(), self._spare) | ({pid} if status is None else set())
            if not victims:
                break
            for victim in victims:
                try:
                    os.kill(victim, signal.SIGKILL)
                except OSError:
                    pass
            status = _reap(pid, self._spare, status)
        return status if status is not None else signal.SIGKILL

    def leave(self) -> None:
        """Removes what was made on the host's disk."""
        _make_removable(os.path.dirname(self.workspace))
        shutil.rmtree(os.path.dirname(self.workspace), ignore_errors=True)


def _die(what: str) -> NoReturn:
    """Ends a half-made child without running anything of its parent."""
    error = sys.exc_info()[1]
    try:
        os.write(2, f"{what}: {error}\n".encode(errors="replace"))
    finally:
        os._exit(126)


def _reap(pid: int, spare: set[int], status: int | None) -> int | None:
    for child in [pid, *_children_of(os.getpid())]:
        if child in spare:
            continue
        try:
            done, value = os.waitpid(child, os.WNOHANG)
        except ChildProcessError:
            continue
        if done == pid:
            status = value
    return status


def _parents() -> dict[int, int]:
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
    return parents


def _children_of(pid: int) -> list[int]:
    return [child for child, parent in _parents().items() if parent == pid]


def _descendants(root: int, spare: set[int]) -> set[int]:
    parents = _parents()
    found: set[int] = set()
    front = {root}
    while front:
        front = {child for child, parent in parents.items() if parent in front} - spare - found
        found |= front
    return found


def _make_removable(folder: str) -> None:
    for parent, folders, _ in os.walk(folder):
        for name in folders:
            path = os.path.join(parent, name)
            if not os.path.islink(path):
                os.chmod(path, 0o700)
