"""Leased workspaces: a tree in memory that behaves as a sandbox does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from agentic_gym.errors import SandboxDead
from agentic_gym.sandbox.base import ExecResult, Sandbox, SandboxSpec, TestReport
from agentic_gym.sandbox.leased import LeasedBackend


class CountingSandbox:
    """Keeps a tree and counts test runs; a stand-in for the sandbox beneath."""

    def __init__(self, spec: SandboxSpec, runs: list[dict[str, bytes]]) -> None:
        self.files = dict(spec.files)
        self.runs = runs

    def exec(self, command: str, *, timeout_s: float = 30.0) -> ExecResult:
        self.files[command] = b"made"
        return ExecResult(0, "", 0)

    def run_pytest(
        self, args: Sequence[str], *, timeout_s: float = 30.0, hardened: bool = False
    ) -> TestReport:
        self.runs.append(dict(self.files))
        return TestReport({f"{args[0]}::t": "passed"}, 0 if "hang" not in self.files else None, "")

    def read_file(self, path: str) -> bytes:
        return self.files[path]

    def write_file(self, path: str, content: bytes) -> None:
        self.files[path] = content

    def put_tree(self, files: Mapping[str, bytes]) -> None:
        self.files.update(files)

    def list_files(self) -> list[str]:
        return sorted(self.files)

    def diff(self) -> bytes:
        return b""

    def reset(self, files: Mapping[str, bytes] | None = None) -> None:
        self.files = dict(files or {})

    def alive(self) -> bool:
        return True

    def close(self) -> None:
        pass


class CountingBackend:
    name = "counting"

    def __init__(self) -> None:
        self.runs: list[dict[str, bytes]] = []

    def probe(self) -> Mapping[str, str]:
        return {}

    def start(self, spec: SandboxSpec) -> Sandbox:
        return CountingSandbox(spec, self.runs)


def test_runs_see_the_tree_of_their_own_workspace() -> None:
    beneath = CountingBackend()
    backend = LeasedBackend(beneath, size=1)
    first = backend.start(SandboxSpec(files={"a.py": b"1"}))
    second = backend.start(SandboxSpec(files={"a.py": b"2"}))
    second.write_file("b.py", b"3")
    first.run_pytest(["t.py"])
    second.run_pytest(["t.py"])
    first.run_pytest(["t.py"])
    assert beneath.runs == [{"a.py": b"1"}, {"a.py": b"2", "b.py": b"3"}, {"a.py": b"1"}]
    backend.close()


def test_equal_runs_are_answered_from_the_cache() -> None:
    beneath = CountingBackend()
    backend = LeasedBackend(beneath, size=1, cache_size=2)
    box = backend.start(SandboxSpec(files={"a.py": b"1"}))
    reports = [box.run_pytest(["t.py"]) for _ in range(3)]
    assert len(beneath.runs) == 1
    assert reports[0] == reports[1] == reports[2]
    box.run_pytest(["other.py"])
    box.write_file("a.py", b"2")
    box.run_pytest(["t.py"])
    assert len(beneath.runs) == 3
    box.reset()
    box.run_pytest(["t.py"])  # the oldest of three reports was dropped
    assert len(beneath.runs) == 4
    backend.close()


def test_runs_that_hang_or_die_are_not_kept() -> None:
    beneath = CountingBackend()
    backend = LeasedBackend(beneath, size=1, cache_size=8)
    box = backend.start(SandboxSpec(files={"hang": b""}))
    box.run_pytest(["t.py"])
    box.run_pytest(["t.py"])
    assert len(beneath.runs) == 2
    backend.close()


def test_commands_change_the_tree() -> None:
    backend = LeasedBackend(CountingBackend(), size=1)
    box = backend.start(SandboxSpec(files={"a.py": b"1"}))
    box.exec("new.txt")
    assert box.list_files() == ["a.py", "new.txt"]
    assert b"+made" in box.diff()
    backend.close()


def test_diff_is_against_the_base() -> None:
    backend = LeasedBackend(CountingBackend(), size=1)
    box = backend.start(SandboxSpec(files={"a.py": b"x = 1\r\n", "gone.py": b"y\n"}))
    assert box.diff() == b""
    box.write_file("a.py", b"x = 2\r\n")
    box.write_file("__pycache__/a.pyc", b"\0")
    assert b"-x = 1\r\n+x = 2\r\n" in box.diff()
    assert b"__pycache__" not in box.diff()
    box.reset()
    assert box.diff() == b""
    backend.close()


@pytest.mark.parametrize("path", ["../e.txt", "/etc/passwd", "a/../../b"])
def test_paths_that_lead_out_are_refused(path: str) -> None:
    backend = LeasedBackend(CountingBackend(), size=1)
    box = backend.start(SandboxSpec(files={"a.py": b"1"}))
    with pytest.raises(PermissionError):
        box.write_file(path, b"")
    with pytest.raises(PermissionError):
        box.read_file(path)
    backend.close()


def test_files_and_folders_are_told_apart() -> None:
    backend = LeasedBackend(CountingBackend(), size=1)
    box = backend.start(SandboxSpec(files={"src/a.py": b"1"}))
    with pytest.raises(IsADirectoryError):
        box.read_file("src")
    with pytest.raises(IsADirectoryError):
        box.write_file("src", b"")
    with pytest.raises(NotADirectoryError):
        box.write_file("src/a.py/b.py", b"")
    with pytest.raises(FileNotFoundError):
        box.read_file("b.py")
    backend.close()


def test_a_closed_workspace_is_dead() -> None:
    backend = LeasedBackend(CountingBackend(), size=1)
    box = backend.start(SandboxSpec())
    box.close()
    assert not box.alive()
    with pytest.raises(SandboxDead):
        box.list_files()
    backend.close()
