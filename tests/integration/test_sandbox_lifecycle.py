"""Sandboxes end: with their thread's process, on signals, when they hang; and a pool replaces them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentic_gym.errors import ConfigError, SandboxDead, SandboxError, SandboxUnavailable
from agentic_gym.sandbox import client, records
from agentic_gym.sandbox.base import Sandbox, SandboxBackend, SandboxSpec
from agentic_gym.sandbox.bubblewrap import BubblewrapBackend
from agentic_gym.sandbox.pool import SandboxPool
from agentic_gym.sandbox.unsafe import UnsafeBackend

pytestmark = pytest.mark.slow

_OWNER = """
import sys, time
from agentic_gym.sandbox.bubblewrap import BubblewrapBackend
from agentic_gym.sandbox.pool import SandboxPool
from agentic_gym.sandbox.unsafe import UnsafeBackend
backend = BubblewrapBackend() if sys.argv[1] == "bubblewrap" else UnsafeBackend(allow_unsafe=True)
pool = SandboxPool(backend, size=2)
first, second = pool.acquire(), pool.acquire()
first.exec(f"(setsid sleep {sys.argv[2]} &)")
second.exec(f"(setsid sleep {sys.argv[2]} &)")
print("ready", flush=True)
if sys.argv[3] == "busy":
    second.exec("sleep 60", timeout_s=60)
elif sys.argv[3] == "wait":
    time.sleep(60)
sys.stdin.readline()
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Records and work folders of this test alone."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def backend() -> SandboxBackend:
    return BubblewrapBackend()


@pytest.fixture
def sandbox(backend: SandboxBackend) -> Iterator[Sandbox]:
    made = backend.start(SandboxSpec(files={"a": b"1"}))
    yield made
    made.close()


@pytest.mark.parametrize("kind", ["bubblewrap", "unsafe"])
@pytest.mark.parametrize(
    ("how", "then"), [("wait", signal.SIGTERM), ("busy", signal.SIGKILL), ("end", None)]
)
def test_nothing_outlives_the_owner(
    kind: str, how: str, then: signal.Signals | None, home: Path
) -> None:
    seconds = f"43{os.getpid() % 10000:04d}"
    env = {**os.environ, "TMPDIR": str(home)}
    owner = subprocess.Popen(
        [sys.executable, "-c", _OWNER, kind, seconds, how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=env,
    )
    with owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"ready\n"
        _until(lambda: _commands().count(f"sleep {seconds}") == 2)
        if then is not None:
            owner.send_signal(then)
        owner.communicate(timeout=20)
    _until(lambda: f"sleep {seconds}" not in _commands())
    records.sweep()
    _until(lambda: not _left(home))


def _left(home: Path) -> list[str]:
    records.sweep()
    return [path.name for path in (home / f"agentic-gym-{os.getuid()}").iterdir()]


def test_sweep_leaves_what_is_not_proven_ours(home: Path) -> None:
    with subprocess.Popen(["sleep", "30"]) as bystander:
        record = records.Record(bystander.pid, [home])
        path = next(records.folder().glob("*.json"))
        text = path.read_text().replace(f"[{os.getpid()}, ", "[4194304, ")
        other = text.replace(f"[{bystander.pid}, ", f"[{bystander.pid}, 1")
        path.write_text(other)
        assert records.sweep() == 1
        assert bystander.poll() is None
        assert home.exists()
        record.remove()
        bystander.kill()


def test_sandbox_outlives_the_thread_that_started_it(backend: SandboxBackend) -> None:
    made: list[Sandbox] = []
    thread = threading.Thread(target=lambda: made.append(backend.start(SandboxSpec())))
    thread.start()
    thread.join()
    time.sleep(0.2)
    assert made[0].exec("echo alive").output == "alive\n"
    made[0].close()


def test_a_hung_supervisor_becomes_a_dead_sandbox(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_GRACE_S", 0.5)
    stopped = _supervisors()
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    begin = time.monotonic()
    try:
        with pytest.raises(SandboxDead, match="no answer to exec"):
            sandbox.exec("true", timeout_s=0.1)
    finally:
        for pid in stopped:
            _signal(pid, signal.SIGKILL)
    assert time.monotonic() - begin < 20
    assert not sandbox.alive()
    with pytest.raises(SandboxDead):
        sandbox.read_file("a")


def test_a_killed_supervisor_becomes_a_dead_sandbox(sandbox: Sandbox) -> None:
    for pid in _supervisors():
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(SandboxDead, match="ended during"):
        sandbox.exec("true")


def test_a_lost_test_runner_is_an_infrastructure_error_and_replaced(sandbox: Sandbox) -> None:
    sandbox.write_file("test_a.py", b"def test_a(): pass\n")
    assert sandbox.run_pytest([]).exit_code == 0
    for pid in _children(_supervisors()):
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(SandboxError, match="RunnerLost"):
        sandbox.run_pytest([])
    assert sandbox.run_pytest([]).exit_code == 0


def test_a_test_run_does_not_outlive_a_lost_runner(sandbox: Sandbox) -> None:
    seconds = f"44{os.getpid() % 10000:04d}"
    test = f"import subprocess\ndef test_a(): subprocess.run(['sleep', '{seconds}'])\n"
    sandbox.write_file("test_a.py", test.encode())
    caught: list[SandboxError] = []

    def run() -> None:
        try:
            sandbox.run_pytest(["test_a.py"], timeout_s=60)
        except SandboxError as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    _until(lambda: f"sleep {seconds}" in _commands())
    (runner,) = [
        pid
        for pid in _children(_supervisors())
        if Path(f"/proc/{pid}/cmdline").read_bytes().endswith(b"boot.py\0runner\0")
    ]
    os.kill(runner, signal.SIGKILL)
    thread.join(20)
    assert len(caught) == 1
    _until(lambda: f"sleep {seconds}" not in _commands())


@pytest.mark.parametrize("kind", ["bubblewrap", "unsafe"])
def test_a_start_that_fails_leaves_nothing(
    kind: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def left() -> list[object]:
        groups = Path("/sys/fs/cgroup").glob("**/agentic-gym/*/")
        return [
            len(os.listdir("/proc/self/fd")),
            sorted(groups),
            sorted(records.folder().iterdir()),
        ]

    make: SandboxBackend = BubblewrapBackend(packages=["no-such-package"])
    if kind == "unsafe":
        make = UnsafeBackend(allow_unsafe=True)
        monkeypatch.setattr(sys, "executable", "/no/such/python")
    before = left()
    for _ in range(3):
        with pytest.raises(SandboxUnavailable):
            make.start(SandboxSpec())
    assert left() == before


def test_a_fork_cannot_use_or_close_its_parents_sandbox(sandbox: Sandbox) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            sandbox.close()
            sandbox.exec("true")
        except SandboxDead:
            os._exit(1)
        except SandboxError:
            os._exit(7)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    assert sandbox.exec("echo alive").output == "alive\n"


def test_calls_of_many_threads_take_turns(sandbox: Sandbox) -> None:
    found: dict[int, str] = {}

    def work(number: int) -> None:
        for _ in range(20):
            found[number] = sandbox.exec(f"echo {number}").output

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: f"{number}\n" for number in range(4)}


def test_base_paths_that_lead_out_are_refused(backend: SandboxBackend) -> None:
    for path in ("/etc/x", "../x", "a/../../x", "", "a\0b", "a\ud800"):
        with pytest.raises(SandboxError, match="relative POSIX path"):
            backend.start(SandboxSpec(files={path: b""}))


def test_environment_and_limits_come_from_the_spec(backend: SandboxBackend) -> None:
    spec = SandboxSpec(env={"ANSWER": "42"}, output_limit=100, max_processes=50)
    sandbox = backend.start(spec)
    result = sandbox.exec("echo $ANSWER; ulimit -u; seq 100")
    assert result.output.startswith("42\n50\n")
    assert len(result.output) < 200
    sandbox.write_file(
        "test_e.py", b"import os\ndef test_e(): assert os.environ['ANSWER'] == '42'\n"
    )
    assert sandbox.run_pytest([]).exit_code == 0
    sandbox.close()


def test_pool_lends_clean_sandboxes(backend: SandboxBackend) -> None:
    with SandboxPool(backend, size=1, spec=SandboxSpec(files={"base": b"b"})) as pool:
        with pool.lease({"x": b"1"}) as first:
            first.exec("touch left; export LEFT=1; (sleep 4321 &)")
            with pytest.raises(SandboxError, match="no sandbox became free"):
                pool.acquire(timeout_s=0.05)
        with pool.lease() as second:
            assert second is first
            assert second.list_files() == ["base"]
            assert second.exec("echo [$LEFT]; ls /proc | grep -c '^[0-9]'").output[:3] == "[]\n"
        with pytest.raises(SandboxError, match="relative POSIX path"):
            pool.acquire({"../x": b""})
        with pool.lease() as third:  # what could not be lent is not lost
            assert third is first
        with pytest.raises(ConfigError, match="not lent"):
            pool.release(first)


def test_pool_replaces_the_dead(backend: SandboxBackend) -> None:
    with SandboxPool(backend, size=1) as pool:
        with pool.lease() as first:
            first.close()
        with pool.lease() as second:
            assert second is not first
            assert second.alive()
        second.close()  # dies while it is idle
        with pool.lease({"y": b"2"}) as third:
            assert third.list_files() == ["y"]
    with pytest.raises(SandboxError, match="closed"):
        pool.acquire()


def test_pool_serves_threads(backend: SandboxBackend) -> None:
    found: list[list[str]] = []

    def work(number: int) -> None:
        for turn in range(5):
            with pool.lease({f"{number}-{turn}": b""}) as sandbox:
                found.append(sandbox.list_files())

    with SandboxPool(backend, size=2) as pool:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    expected = sorted([f"{number}-{turn}"] for number in range(4) for turn in range(5))
    assert sorted(found) == expected


def test_unsafe_leaves_no_folder(home: Path) -> None:
    sandbox = UnsafeBackend(allow_unsafe=True).start(SandboxSpec(files={"a": b"1"}))
    sandbox.exec("mkdir -p locked/in; touch locked/in/x; chmod 000 locked")
    sandbox.close()
    assert list((home / f"agentic-gym-{os.getuid()}").iterdir()) == []


def _supervisors() -> list[int]:
    """Supervisors below this process, told from the runner by their arguments."""
    found = []
    for pid in _descendants(os.getpid()):
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        if command.endswith(b"boot.py\0supervisor\0") and b"bwrap" not in command:
            found.append(pid)
    assert found
    return found


def _descendants(root: int) -> list[int]:
    found, front = [], [root]
    while front:
        front = _children(front)
        found += front
    return found


def _children(pids: list[int]) -> list[int]:
    children = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent in pids:
            children.append(int(path.parent.name))
    return children


def _commands() -> list[str]:
    commands = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            commands.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace").strip())
        except OSError:
            continue
    return commands


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def _until(condition: object, timeout_s: float = 15.0) -> None:
    assert callable(condition)
    give_up = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.05)
