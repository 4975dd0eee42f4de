"""Workspaces that hold a sandbox only while something runs.

Hundreds of episodes at once need hundreds of workspaces but, on a small machine, only a few running
processes. A leased workspace is a tree of files in memory; each command or test run borrows a sandbox from
a pool, with exactly this tree in it, and gives it back. There is no persistent shell: folder, exports and
background processes end with the command. So this fits agents that edit and test, not agents that live in
a shell.

Because a test run then depends on the tree alone, its report can be kept: ``cache_size`` reports of earlier
runs, by tree and arguments. Use that only for tests that are deterministic.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from agentic_gym.errors import ConfigError, SandboxDead
from agentic_gym.sandbox.base import ExecResult, Sandbox, SandboxBackend, SandboxSpec, TestReport
from agentic_gym.sandbox.diffing import Change, tree_diff
from agentic_gym.sandbox.pool import SandboxPool

_WAIT_S = 900.0
"""How long to wait for a sandbox: many short runs of others may come first, and are no fault."""


class LeasedBackend:
    """Makes workspaces that share a few sandboxes.

    Args:
        backend: makes the sandboxes.
        size: how many; the number of cores is a good choice.
        cache_size: test reports that are kept; 0 runs every time.

    Raises:
        ConfigError: ``cache_size`` is negative, or ``size`` not positive.
    """

    def __init__(self, backend: SandboxBackend, *, size: int, cache_size: int = 0) -> None:
        if cache_size < 0:
            raise ConfigError(f"cache_size={cache_size} must not be negative")
        self.name = f"leased {backend.name}"
        self._backend = backend
        self._pool = SandboxPool(backend, size=size)
        self._cache_size = cache_size
        self._reports: OrderedDict[bytes, TestReport] = OrderedDict()
        self._lock = threading.Lock()

    def probe(self) -> Mapping[str, str]:
        """What the backend beneath isolates."""
        return self._backend.probe()

    def start(self, spec: SandboxSpec) -> Sandbox:
        """A workspace with the spec's files. Limits and environment are those of the pool."""
        return LeasedSandbox(self, spec.files)

    def close(self) -> None:
        """Ends the sandboxes; idempotent."""
        self._pool.close()

    def execute(
        self, files: Mapping[str, bytes], command: str, timeout_s: float
    ) -> tuple[ExecResult, dict[str, bytes]]:
        """Runs a command on a tree; returns its result and the tree afterwards."""
        with self._pool.lease(files, timeout_s=_WAIT_S) as sandbox:
            result = sandbox.exec(command, timeout_s=timeout_s)
            return result, _regular_files(sandbox)

    def test(
        self, files: Mapping[str, bytes], args: Sequence[str], timeout_s: float, hardened: bool
    ) -> TestReport:
        """Runs pytest on a tree, or finds the report of an equal run."""
        key = _key(files, args, timeout_s, hardened) if self._cache_size else b""
        with self._lock:
            if key in self._reports:
                self._reports.move_to_end(key)
                return self._reports[key]
        with self._pool.lease(files, timeout_s=_WAIT_S) as sandbox:
            report = sandbox.run_pytest(args, timeout_s=timeout_s, hardened=hardened)
        # A run that hung or died may have been the machine's fault: it is not kept.
        if self._cache_size and report.exit_code is not None:
            with self._lock:
                self._reports[key] = report
                while len(self._reports) > self._cache_size:
                    self._reports.popitem(last=False)
        return report


class LeasedSandbox:
    """A tree in memory; see the module. Implements :class:`~agentic_gym.sandbox.base.Sandbox`."""

    def __init__(self, backend: LeasedBackend, files: Mapping[str, bytes]) -> None:
        self._backend = backend
        self._base = dict(files)
        self._files = dict(files)
        self._closed = False

    def exec(self, command: str, *, timeout_s: float = 30.0) -> ExecResult:
        """Runs a command in a shell of its own; regular files that it wrote are kept."""
        self._check()
        result, self._files = self._backend.execute(self._files, command, timeout_s)
        return result

    def run_pytest(
        self, args: Sequence[str], *, timeout_s: float = 30.0, hardened: bool = False
    ) -> TestReport:
        """Runs pytest; files that the tests write are not kept."""
        self._check()
        return self._backend.test(self._files, args, timeout_s, hardened)

    def read_file(self, path: str) -> bytes:
        """Reads a file."""
        self._check()
        name = _normal(path)
        if name in self._files:
            return self._files[name]
        if name == "." or any(other.startswith(f"{name}/") for other in self._files):
            raise IsADirectoryError(f"{path!r} is a folder")
        raise FileNotFoundError(f"no file {path!r}")

    def write_file(self, path: str, content: bytes) -> None:
        """Writes a file."""
        self._check()
        name = _normal(path)
        if name == "." or any(other.startswith(f"{name}/") for other in self._files):
            raise IsADirectoryError(f"{path!r} is a folder")
        for parent in PurePosixPath(name).parents:
            if str(parent) in self._files:
                raise NotADirectoryError(f"{str(parent)!r} is a file, so {path!r} cannot be made")
        self._files[name] = bytes(content)

    def put_tree(self, files: Mapping[str, bytes]) -> None:
        """Writes many files."""
        for path, content in files.items():
            self.write_file(path, content)

    def list_files(self) -> list[str]:
        """All files, sorted."""
        self._check()
        return sorted(path for path in self._files if not path.startswith(".git/"))

    def diff(self) -> bytes:
        """Git-style diff against the base tree."""
        self._check()
        changed = sorted(
            path
            for path in {*self._base, *self._files}
            if self._base.get(path) != self._files.get(path) and not _is_litter(path)
        )
        changes = (
            Change(path, "100644" if path in self._files else None, self._files.get(path))
            for path in changed
        )
        return tree_diff(self._base, changes)

    def reset(self, files: Mapping[str, bytes] | None = None) -> None:
        """Back to the base tree, or to a new one."""
        self._check()
        self._base = dict(self._base if files is None else files)
        self._files = dict(self._base)

    def alive(self) -> bool:
        """Whether it can be used."""
        return not self._closed

    def close(self) -> None:
        """Forgets the tree; idempotent."""
        self._closed = True

    def _check(self) -> None:
        if self._closed:
            raise SandboxDead("this workspace was closed: start a new one")


def _normal(path: str) -> str:
    """A clean relative path.

    >>> _normal("./src//a.py")
    'src/a.py'

    Raises:
        PermissionError: it leads out of the workspace.
        FileNotFoundError: no file can be called so.
    """
    if not path or "\0" in path:
        raise FileNotFoundError(f"no file {path!r}")
    pure = PurePosixPath(path)
    if pure.is_absolute() or ".." in pure.parts:
        raise PermissionError(f"{path!r} leads out of the workspace")
    return str(pure)


def _regular_files(sandbox: Sandbox) -> dict[str, bytes]:
    """Files that can be read: links that lead out and the like are left behind."""
    files = {}
    for path in sandbox.list_files():
        with contextlib.suppress(OSError):
            files[path] = sandbox.read_file(path)
    return files


def _is_litter(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return bool({".git", "__pycache__", ".pytest_cache"} & set(parts))


def _key(
    files: Mapping[str, bytes], args: Sequence[str], timeout_s: float, hardened: bool
) -> bytes:
    digest = hashlib.sha256(repr((list(args), timeout_s, hardened)).encode())
    for path in sorted(files):
        digest.update(
            b"\0%d\0%d\0" % (len(path.encode("utf-8", "surrogatepass")), len(files[path]))
        )
        digest.update(path.encode("utf-8", "surrogatepass") + files[path])
    return digest.digest()
