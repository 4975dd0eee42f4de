"""The sandbox protocol (DESIGN §4). Synchronous; concurrency is the caller's work.

A sandbox has one workspace folder (``/workspace`` inside), one persistent shell, and no network. A dead
sandbox raises :class:`~agentic_gym.errors.SandboxDead`: an infrastructure error, never an observation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """What a sandbox is made from.

    Attributes:
        files: the base tree, relative POSIX path to content.
        env: extra environment variables inside.
        memory_bytes: limit of the whole sandbox where a cgroup can be made, else per process.
        max_processes: limit of processes and threads.
        disk_bytes: size of the writable layer and of ``/tmp``.
        output_limit: bytes of output kept per command (half head, half tail).
    """

    files: Mapping[str, bytes] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    memory_bytes: int = 512 * 2**20
    max_processes: int = 128
    disk_bytes: int = 128 * 2**20
    output_limit: int = 20_000


@dataclass(frozen=True, slots=True)
class ExecResult:
    """What a command did.

    Attributes:
        rc: exit status; 124 on a timeout, 128+n for a signal.
        output: stdout and stderr as they came, head and tail where it was long.
        total_bytes: of the whole output.
        timed_out: the time limit ended it; no process of it is left.
        oom: the memory limit ended it.
        duration_s: wall time.
    """

    rc: int
    output: str
    total_bytes: int
    timed_out: bool = False
    oom: bool = False
    duration_s: float = 0.0


@dataclass(frozen=True, slots=True)
class TestReport:
    """What a run of the warm test runner reported, over its private descriptor.

    Attributes:
        outcomes: pytest node id to "passed", "failed", "error", "skipped" (xfail counts as skipped,
            a strict xpass as failed); each id is reported once; ids seen twice are in ``duplicates``.
        exit_code: pytest's exit status as the runner saw it; None if the process died before it.
        output: pytest's own text (tracebacks, summary), head and tail.
        collection_errors: files that could not be collected, with the message.
        timed_out: the time limit ended it.
        duration_s: wall time.
    """

    __test__ = False  # not a test class, whatever pytest thinks of the name

    outcomes: Mapping[str, str]
    exit_code: int | None
    output: str
    collection_errors: Mapping[str, str] = field(default_factory=dict)
    duplicates: tuple[str, ...] = ()
    timed_out: bool = False
    duration_s: float = 0.0


@runtime_checkable
class Sandbox(Protocol):
    """A living sandbox. Every method may raise ``SandboxDead``."""

    def exec(self, command: str, *, timeout_s: float = 30.0) -> ExecResult:
        """Runs a command in the persistent shell: cwd, exports and functions survive."""
        ...

    def run_pytest(
        self,
        args: Sequence[str],
        *,
        timeout_s: float = 30.0,
        hardened: bool = False,
    ) -> TestReport:
        """Runs pytest in a fork of the warm runner, with cwd ``/workspace``.

        Args:
            args: paths or node ids relative to the workspace.
            timeout_s: after it every process of the run is killed.
            hardened: for grading: the workspace's conftest, ini files and plugins are ignored
                (``-I``-like isolation, own ini, workspace appended to ``sys.path``).
        """
        ...

    def read_file(self, path: str) -> bytes:
        """Reads a file of the workspace.

        Raises:
            FileNotFoundError, IsADirectoryError: as usual.
            PermissionError: the path leads out of the workspace, also through a link.
        """
        ...

    def write_file(self, path: str, content: bytes) -> None:
        """Writes a file of the workspace, making its folders. Raises as :meth:`read_file`."""
        ...

    def put_tree(self, files: Mapping[str, bytes]) -> None:
        """Writes many files at once."""
        ...

    def list_files(self) -> list[str]:
        """All regular files and links of the workspace, sorted, relative, without ``.git`` content."""
        ...

    def diff(self) -> bytes:
        """Unified git-style diff (bytes) of the workspace against the base files it was made from.

        Made outside git and against the base, whatever the agent committed; binary files appear as a
        ``Binary files … differ`` stanza; ``.git``, ``__pycache__`` and ``.pytest_cache`` are left out.
        """
        ...

    def reset(self, files: Mapping[str, bytes] | None = None) -> None:
        """Back to the base tree (or to a new one) with no process and no shell state left."""
        ...

    def alive(self) -> bool:
        """Whether it answers."""
        ...

    def close(self) -> None:
        """Ends every process and frees everything; idempotent."""
        ...


class SandboxBackend(Protocol):
    """Makes sandboxes of one kind."""

    name: str

    def probe(self) -> Mapping[str, str]:
        """Runs a real sandbox and reports what is isolated (key: what, value: how or "no").

        Raises:
            SandboxUnavailable: it does not work here; says why.
        """
        ...

    def start(self, spec: SandboxSpec) -> Sandbox:
        """Starts one. Raises ``SandboxError``."""
        ...
