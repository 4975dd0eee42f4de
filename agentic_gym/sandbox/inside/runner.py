"""The warm test runner: imports pytest once, forks for each run.

A run is two processes: the first one of its namespaces, which only waits and collects orphans, and
pytest, so that a test sees ordinary signals and an ordinary parent. When the first ends, by itself or by
the time limit, the kernel ends all that is left of the run.
"""

from __future__ import annotations

import fcntl
import os
import select
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from agentic_gym.sandbox.inside import kernel
from agentic_gym.sandbox.inside.capture import HeadTail
from agentic_gym.sandbox.inside.isolation import Limits, Namespaces, Plain
from agentic_gym.sandbox.inside.results import Reporter, Results, sender
from agentic_gym.sandbox.inside.sealed import Sealed
from agentic_gym.sandbox.inside.supervisor import take_standard_streams
from agentic_gym.sandbox.inside.warmup import warm_up
from agentic_gym.sandbox.inside.wire import ChannelClosed

_COMMON_ARGS = ["-p", "no:cacheprovider", "-p", "no:pastebin", "--color=no"]
_HARDENED_ARGS = ["-c", os.devnull, "--noconftest", "--import-mode=importlib", "--assert=plain"]
_PIPE_BYTES = 2**16
_NO_RUN: dict[str, Any] = {
    "outcomes": {},
    "exit_code": None,
    "collection_errors": {},
    "duplicates": [],
    "timed_out": False,
    "duration_s": 0.0,
}
_OWN_PATH = __file__.rsplit("/", 4)[0]
_RESULT_FD = 300  # far from the descriptors that tests open and close


class Runner:
    """Runs pytest in forks of this process.

    Args:
        config: as for the supervisor.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        limits = Limits(**config["limits"])
        self._isolation: Namespaces | Plain = (
            Namespaces(limits)
            if config["mode"] == "namespaces"
            else Plain(config["workspace"], limits)
        )
        self._isolation.adopt()
        self._env: dict[str, str] = config["env"]
        self._output_limit: int = config["output_limit"]
        sys.path += config["packages"]
        self._pytest_main = warm_up(_COMMON_ARGS)

    def run(self, args: Sequence[str], timeout_s: float, hardened: bool) -> dict[str, Any]:
        """One run; the fields of a ``TestReport``, with the output as bytes."""
        started = time.monotonic()
        key = os.urandom(16)
        result_r, result_w = os.pipe()
        output_r, output_w = os.pipe()

        sealed = Sealed(self._isolation.workspace, args) if hardened else None

        def first() -> NoReturn:
            _first_process(self, [*args], sealed, result_w, output_w, key)

        try:
            pid = self._isolation.spawn(first)
        except OSError as error:  # no process left to have, for instance
            if sealed:
                sealed.put_back()
            return {**_NO_RUN, "output": f"the tests could not be started: {error}".encode()}
        finally:
            os.close(result_w)
            os.close(output_w)
        results, output = Results(key), HeadTail(self._output_limit)
        in_time = _collect(result_r, output_r, results, output, pid, started + timeout_s)
        status = self._isolation.end(pid)
        _drain(result_r, results)
        _drain(output_r, output)
        if sealed:
            sealed.put_back()
        results.close(os.waitstatus_to_exitcode(status) if in_time else None)
        os.close(result_r)
        os.close(output_r)
        return {
            "outcomes": results.outcomes,
            "exit_code": results.exit_code,
            "collection_errors": results.collection_errors,
            "duplicates": results.duplicates,
            "timed_out": not in_time,
            "duration_s": time.monotonic() - started,
            "output": output.value(),
        }

    def become_pytest(
        self, args: list[str], sealed: Sealed | None, result_w: int, output_w: int, key: bytes
    ) -> NoReturn:
        """Runs pytest in this process, which ends with it; hardened if there are sealed files."""
        code = 3
        try:
            workspace = self._isolation.workspace
            _set_up_streams(output_w)
            _set_up_python(self._env, workspace, last=sealed is not None)
            send = sender(_only_private_descriptor(result_w), key)
            if sealed:
                sealed.serve_imports()
                own = ["--rootdir", workspace, "--confcutdir", workspace]
                args = [*_HARDENED_ARGS, *own, *args]
            code = self._pytest_main(args, Reporter(send))
            send(["end", code])
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)


def _set_up_streams(output_w: int) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(output_w, 1)
    os.dup2(output_w, 2)
    text: dict[str, Any] = {"encoding": "utf-8", "errors": "backslashreplace", "closefd": False}
    sys.stdin, sys.stdout, sys.stderr = (
        open(fd, mode, buffering, **text)  # noqa: SIM115 -- they live as long as the process
        for fd, mode, buffering in ((0, "r", -1), (1, "w", -1), (2, "w", 1))
    )


def _only_private_descriptor(result_w: int) -> int:
    """Closes every descriptor but the standard streams and the results', which moves out of the way."""
    fd = fcntl.fcntl(result_w, fcntl.F_DUPFD_CLOEXEC, _RESULT_FD)
    os.closerange(3, fd)
    os.closerange(fd + 1, 2**16)
    return fd


def _set_up_python(env: Mapping[str, str], workspace: str, *, last: bool) -> None:
    os.environ.clear()
    os.environ.update(env)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.dont_write_bytecode = True
    os.chdir(workspace)
    sys.argv = ["pytest"]
    sys.path.remove(_OWN_PATH)
    for name in [name for name in sys.modules if name.partition(".")[0] == "agentic_gym"]:
        del sys.modules[name]  # the repository under test may be called that
    if last:
        sys.path.append(workspace)
    else:
        sys.path.insert(0, workspace)


def _first_process(
    runner: Runner,
    args: list[str],
    sealed: Sealed | None,
    result_w: int,
    output_w: int,
    key: bytes,
) -> NoReturn:
    kernel.refuse_tracing()  # tests must not read the key out of us, nor take our descriptors
    child = os.fork()
    if child == 0:
        runner.become_pytest(args, sealed, result_w, output_w, key)
    os.closerange(3, 2**16)
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)


def _collect(
    result_r: int, output_r: int, results: Results, output: HeadTail, pid: int, deadline: float
) -> bool:
    """Reads both pipes until the run has ended; False when time ran out before.

    What tests leave running may hold the pipes open, so their ends are not waited for.
    """
    pidfd = os.pidfd_open(pid)
    poll = select.poll()
    for fd in (result_r, output_r, pidfd):
        poll.register(fd, select.POLLIN)
    try:
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            for fd, _ in poll.poll(left * 1e3):
                if fd == pidfd:
                    return True
                data = os.read(fd, _PIPE_BYTES)
                (output if fd == output_r else results).add(data)
                if not data:
                    poll.unregister(fd)
    finally:
        os.close(pidfd)


def _drain(fd: int, sink: Results | HeadTail) -> None:
    os.set_blocking(fd, False)
    for _ in range(64):
        try:
            data = os.read(fd, _PIPE_BYTES)
        except BlockingIOError:
            return
        if not data:
            return
        sink.add(data)


def main() -> NoReturn:
    """Serves runs until the supervisor is gone; a failed start is told in answer to the first."""
    channel = take_standard_streams()
    try:
        config, _ = channel.receive()
        try:
            runner = Runner(config)
        except Exception:
            channel.receive()
            channel.send(
                {"error": "RunnerFailed", "message": traceback.format_exc(), "errno": None}
            )
            os._exit(1)
        while True:
            request, _ = channel.receive()
            answer = runner.run(request["args"], request["timeout_s"], request["hardened"])
            output = answer.pop("output")
            channel.send(answer, [output])
    except ChannelClosed:
        os._exit(0)
