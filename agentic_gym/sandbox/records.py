"""What a crashed run may leave, written down beforehand so that the next one can remove it.

One small file a sandbox, in a folder of the user's own below the temporary directory: who owns it, its
first process on the host, its groups and folders. A process is known by its pid *and* start time; what
cannot be proven to be ours is left alone.

A pid means nothing in another pid namespace (containers may share the folder), on another machine or after a
restart. So a record also says where its pids hold, and its owner keeps a lock on it, which the kernel drops
when the owner ends. Elsewhere no process is ended for a record, and its folders go only once nobody holds the
lock. Rejected: going by age, which would take the sandboxes of a long run from under it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import stat
import tempfile
import uuid
from collections.abc import Iterable
from pathlib import Path

from agentic_gym.errors import SandboxError
from agentic_gym.sandbox import cgroups

WORK_PREFIX = "work-"


def folder() -> Path:
    """The records' folder, made where missing.

    Raises:
        SandboxError: another user owns it.
    """
    path = Path(tempfile.gettempdir()) / f"agentic-gym-{os.getuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    info = path.lstat()
    if info.st_uid != os.getuid() or not stat.S_ISDIR(info.st_mode):
        raise SandboxError(
            f"{path} belongs to user {info.st_uid}: remove it or set TMPDIR elsewhere"
        )
    return path


def start_time(pid: int) -> int | None:
    """When a process started, in clock ticks after boot; None if there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
        state, *rest = text.rpartition(")")[2].split()
        return None if state == "Z" else int(rest[18])
    except (OSError, ValueError, IndexError):
        return None


class Record:
    """The record of one sandbox; removed when the sandbox has been closed in order.

    Args:
        pid: first process of the sandbox, as the host sees it.
        folders: groups and work folders.
    """

    def __init__(self, pid: int, folders: Iterable[Path] = ()) -> None:
        self._path = folder() / f"{uuid.uuid4().hex}.json"
        owner = os.getpid()
        content = {
            "place": _place(),
            "owner": [owner, start_time(owner)],
            "process": [pid, start_time(pid)],
            "folders": [str(path) for path in folders],
        }
        partial = self._path.with_suffix(".part")
        # Not inherited by programs that are started, and closed by the end of this process at the latest.
        self._lock = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        _try_lock(self._lock)
        os.write(self._lock, json.dumps(content).encode())
        partial.rename(self._path)

    def remove(self) -> None:
        """Forgets the sandbox; idempotent."""
        self._path.unlink(missing_ok=True)
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)


def sweep() -> int:
    """Ends and removes what crashed runs of this user left; returns how many sandboxes."""
    swept = 0
    for path in folder().glob("*.json"):
        try:
            content = json.loads(path.read_text())
            here = content["place"] == _place()
            owner, process = content["owner"], content["process"]
            left = [Path(item) for item in content["folders"]]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if _is_running(*owner) if here else _is_locked(path):
            continue
        if here and _is_running(*process):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process[0], signal.SIGKILL)
        if not [item for item in left if not _remove(item)]:
            path.unlink(missing_ok=True)
            swept += 1
    return swept


def _is_running(pid: int, started: int | None) -> bool:
    return started is not None and start_time(pid) == started


def _place() -> str:
    """Where the pids that this process sees hold: a start of a machine, and a pid namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return "unknown"


def _try_lock(fd: int) -> bool:
    """Locks an open file; False where another holds it, or where files cannot be locked."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_locked(path: Path) -> bool:
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return True
    try:
        return not _try_lock(fd)
    finally:
        os.close(fd)


def _remove(item: Path) -> bool:
    if cgroups.is_ours(item):
        return cgroups.remove_folder(item, timeout_s=1.0)
    if item.parent == folder() and item.name.startswith(WORK_PREFIX):
        shutil.rmtree(item, ignore_errors=True)
        return not item.exists()
    return True  # not a path that we make: leave it
