"""The visible tests of a base tree run once for each backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentic_gym.envs.swe.env import SWEEnv
from agentic_gym.envs.swe.task import SWETask
from agentic_gym.sandbox.base import ExecResult, SandboxSpec, TestReport
from agentic_gym.sandbox.leased import LeasedBackend

TASK = SWETask(
    task_id="base-reports",
    repo="r",
    files={"t.py": ""},
    problem_statement="?",
    visible_tests=["t.py"],
    fail_to_pass=["t.py::t"],
    gold_patch="",
)


class CannedSandbox:
    """Reports what it is told; a stand-in for the sandbox beneath."""

    def __init__(self, backend: CannedBackend) -> None:
        self._backend = backend

    def exec(self, command: str, *, timeout_s: float = 30.0) -> ExecResult:
        return ExecResult(0, "/workspace", 0)

    def run_pytest(
        self, args: Sequence[str], *, timeout_s: float = 30.0, hardened: bool = False
    ) -> TestReport:
        self._backend.runs += 1
        return TestReport({"t.py::t": self._backend.status}, 0, "")

    def read_file(self, path: str) -> bytes:
        return b""

    def write_file(self, path: str, content: bytes) -> None:
        pass

    def put_tree(self, files: Mapping[str, bytes]) -> None:
        pass

    def list_files(self) -> list[str]:
        return []

    def diff(self) -> bytes:
        return b""

    def reset(self, files: Mapping[str, bytes] | None = None) -> None:
        pass

    def alive(self) -> bool:
        return True

    def close(self) -> None:
        pass


class CannedBackend:
    def __init__(self, name: str, status: str) -> None:
        self.name = name
        self.status = status
        self.runs = 0

    def probe(self) -> Mapping[str, str]:
        return {}

    def start(self, spec: SandboxSpec) -> CannedSandbox:
        return CannedSandbox(self)


def test_a_report_is_kept_for_environments_of_the_same_backend_only() -> None:
    good, bad = CannedBackend("good", "passed"), CannedBackend("bad", "failed")
    counts = []
    for backend in (good, good, bad, bad):
        env = SWEEnv(tasks=[TASK], split=None, backend=backend)
        counts.append(env.reset()[1]["tests_passed"])
        env.close()
    assert counts == [1, 1, 0, 0]
    assert (good.runs, bad.runs) == (1, 1)


def test_leased_backends_are_named_after_what_is_beneath() -> None:
    names = []
    for name in ("one", "two"):
        leased = LeasedBackend(CannedBackend(name, "passed"), size=1)
        names.append(leased.name)
        leased.close()
    assert names == ["leased one", "leased two"]
