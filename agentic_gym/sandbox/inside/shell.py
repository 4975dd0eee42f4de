"""The agent's shell: one bash that keeps its folder, exports and functions between commands.

Commands go in over bash's standard input, each quoted and evaluated with its own descriptors; the status
comes back over a descriptor that commands do not have, so nothing printed can pass for an end marker. With
each status bash reports its state. Where bash ends (``exit``, ``set -e``, ``exec``, out of memory) or is
ended (a time limit), everything it started is killed and a new bash gets the last reported state.

Rejected: stopping only the foreground process on a time limit. The rest of the command line would go on
to run, as if what was stopped had merely failed.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import time
from collections.abc import Mapping
from typing import NoReturn

from agentic_gym.sandbox.inside.capture import HeadTail
from agentic_gym.sandbox.inside.isolation import Namespaces, Plain

Isolation = Namespaces | Plain
_STATUS_FD, _OUTPUT_FD = 4, 5
_REPORT = (
    b"{ __gym_status=$?; printf '%s\\0' $__gym_status; pwd -P; printf '\\0'; "
    b"declare -px; declare -f; printf '\\0'; } >&4\n"
)
_RESTORE_S = 5.0
_PIPE_BYTES = 2**20
_F_SETPIPE_SZ = 1031


class HostGone(Exception):
    """Nobody is left to answer to."""


class Shell:
    """Runs commands in bash, one at a time.

    Args:
        isolation: how to start and end it.
        env: its whole environment.
        output_limit: bytes of output kept for one command.
        control_fd: the host's end of the line; a command is given up when the host goes.
    """

    def __init__(
        self, isolation: Isolation, env: Mapping[str, str], output_limit: int, control_fd: int
    ) -> None:
        self._isolation = isolation
        self._env = dict(env)
        self._limit = output_limit
        self._control_fd = control_fd
        self._pid = 0
        self._command_fd = self._status_fd = self.output_fd = -1
        self._state = b""
        self._idle = HeadTail(output_limit)

    def run(self, command: bytes, timeout_s: float) -> tuple[dict[str, object], bytes]:
        """Runs one command; returns the fields of an ``ExecResult`` and the output."""
        started = time.monotonic()
        if not self._pid:
            self._start()
        output, self._idle = self._idle, HeadTail(self._limit)
        rc = self._evaluate(command, output, started + timeout_s)
        result: dict[str, object] = {
            "rc": 124 if rc is None else rc,
            "total_bytes": output.total,
            "timed_out": rc is None,
            "duration_s": time.monotonic() - started,
        }
        return result, output.value()

    def drain(self) -> None:
        """Takes what background jobs print between commands, so that they do not block."""
        _read_available(self.output_fd, self._idle)

    def stop(self) -> None:
        """Ends bash and all that it started; forgets its state."""
        self._end()
        self._state = b""
        self._idle = HeadTail(self._limit)

    def _evaluate(self, command: bytes, output: HeadTail, deadline: float) -> int | None:
        """The exit status, or None when time ran out."""
        pidfd = os.pidfd_open(self._pid)
        try:
            return self._converse(command, output, deadline, pidfd)
        finally:
            os.close(pidfd)

    def _converse(
        self, command: bytes, output: HeadTail, deadline: float, pidfd: int
    ) -> int | None:
        line = b"eval -- %s </dev/null >&5 2>&5 4>&- 5>&-\n" % _quoted(command)
        pending = memoryview(line + _REPORT)
        status = b""
        poll = select.poll()
        poll.register(self.output_fd, select.POLLIN)
        poll.register(self._status_fd, select.POLLIN)
        poll.register(self._command_fd, select.POLLOUT)
        poll.register(self._control_fd, 0)
        poll.register(pidfd, select.POLLIN)
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                self._end(output)
                return None
            events = dict(poll.poll(left * 1e3))
            if self._control_fd in events:
                raise HostGone
            if self._command_fd in events:
                pending = _write_some(self._command_fd, pending)
                if not pending:
                    poll.unregister(self._command_fd)
            if self.output_fd in events:
                output.add(os.read(self.output_fd, _PIPE_BYTES))
            if self._status_fd in events:
                data = os.read(self._status_fd, _PIPE_BYTES)
                status += data
                if not data:  # bash exited, or became another program
                    poll.unregister(self._status_fd)
            if status.count(b"\0") >= 3:
                _read_available(self.output_fd, output)
                return self._remember(status)
            if pidfd in events:
                return _exit_code(self._end(output))

    def _remember(self, status: bytes) -> int:
        rc, cwd, state = status.split(b"\0")[:3]
        folder = b"cd -- %s\n" % _quoted(cwd[:-1]) if cwd else b""
        self._state = folder + state
        return int(rc)

    def _start(self) -> None:
        command_r, self._command_fd = os.pipe()
        self._status_fd, status_w = os.pipe()
        self.output_fd, output_w = os.pipe()
        for fd in (self._command_fd, self.output_fd):
            os.set_blocking(fd, False)
        _widen(self.output_fd)
        folder, env = self._isolation.workspace, self._env

        def bash() -> NoReturn:
            _become_bash(command_r, status_w, output_w, folder, env)

        self._pid = self._isolation.spawn(bash)
        for fd in (command_r, status_w, output_w):
            os.close(fd)
        if self._state:
            state, self._state = self._state, b""
            self._evaluate(state, HeadTail(1), time.monotonic() + _RESTORE_S)
            if not self._pid:  # the state itself ended the new shell: start without it
                self._start()

    def _end(self, output: HeadTail | None = None) -> int:
        """Kills bash and all that it started; returns its wait status."""
        if not self._pid:
            return 0
        status = self._isolation.end(self._pid)
        self._pid = 0
        if output is not None:
            _read_available(self.output_fd, output)
        for fd in (self._command_fd, self._status_fd, self.output_fd):
            os.close(fd)
        self._command_fd = self._status_fd = self.output_fd = -1
        return status


def _become_bash(
    command_r: int, status_w: int, output_w: int, folder: str, env: Mapping[str, str]
) -> NoReturn:
    # Above the targets first, so that no dup2 below overwrites a source.
    high = [_above(fd) for fd in (command_r, status_w, output_w)]
    null = _above(os.open("/dev/null", os.O_RDWR))
    targets = (0, 1, 2, _STATUS_FD, _OUTPUT_FD)
    for source, target in zip([high[0], null, null, high[1], high[2]], targets, strict=True):
        os.dup2(source, target, inheritable=True)
    for number in (
        signal.SIGPIPE,
        signal.SIGXFSZ,
    ):  # Python ignores these; programs expect defaults
        signal.signal(number, signal.SIG_DFL)
    os.chdir(folder)
    os.execve("/bin/bash", ["bash", "--norc", "--noprofile", "-s"], dict(env))


def _above(fd: int) -> int:
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 20)


def _quoted(text: bytes) -> bytes:
    return b"'" + text.replace(b"'", b"'\\''") + b"'"


def _widen(fd: int) -> None:
    try:
        fcntl.fcntl(fd, _F_SETPIPE_SZ, _PIPE_BYTES)
    except OSError:
        pass  # another system, or the user's quota of pipe memory is spent


def _write_some(fd: int, data: memoryview) -> memoryview:
    try:
        return data[os.write(fd, data) :]
    except BlockingIOError:
        return data
    except OSError:  # bash is gone; its end is noticed through the status
        return memoryview(b"")


def _read_available(fd: int, output: HeadTail) -> None:
    """Reads until the pipe is empty, at most what it can hold twice over: writers may go on."""
    for _ in range(64):
        try:
            data = os.read(fd, _PIPE_BYTES)
        except (BlockingIOError, OSError):
            return
        if not data:
            return
        output.add(data)


def _exit_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code
