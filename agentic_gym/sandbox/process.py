"""Starting a sandbox's first process on the host."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from agentic_gym.sandbox.inside.wire import Channel

_END_S = 10.0
_lock = threading.Lock()
_spawners: dict[int, ThreadPoolExecutor] = {}


class HostProcess:
    """A process with a channel over its standard input and output.

    Args:
        argv: program and arguments.
        env: its whole environment.
        pass_fds: descriptors it inherits, closed here afterwards.
    """

    def __init__(
        self, argv: Sequence[str], *, env: dict[str, str], pass_fds: Sequence[int] = ()
    ) -> None:
        ours, theirs = socket.socketpair()
        self._errors_r, errors_w = os.pipe()
        os.set_blocking(self._errors_r, False)
        try:
            self._process = (
                _spawner().submit(self._spawn, argv, env, pass_fds, theirs, errors_w).result()
            )
        except BaseException:
            ours.close()
            os.close(self._errors_r)
            raise
        finally:
            theirs.close()
            os.close(errors_w)
            for fd in pass_fds:
                os.close(fd)
        self.pid = self._process.pid
        fd = ours.detach()
        self.channel = Channel(fd, fd)
        self._errors = b""

    @staticmethod
    def _spawn(
        argv: Sequence[str],
        env: dict[str, str],
        pass_fds: Sequence[int],
        line: socket.socket,
        errors_w: int,
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            list(argv),
            stdin=line.fileno(),
            stdout=line.fileno(),
            stderr=errors_w,
            env=env,
            pass_fds=tuple(pass_fds),
            cwd="/",
        )

    def end(self) -> None:
        """Hangs up, upon which the supervisor ends by itself and all else with it; kills what does not.

        Killing at once would work too, but leave the processes between it and the supervisor as zombies
        to whoever adopts them.
        """
        with (
            contextlib.suppress(OSError),
            socket.socket(fileno=os.dup(self.channel.read_fd)) as line,
        ):
            line.shutdown(socket.SHUT_RDWR)
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self.errors()
        os.close(self._errors_r)
        self._errors_r = -1

    def errors(self) -> str:
        """What it has written to standard error so far (the last 4 kB)."""
        if self._errors_r >= 0:
            try:
                self._errors += os.read(self._errors_r, 2**16)
            except (BlockingIOError, OSError):
                pass
        return self._errors[-4096:].decode("utf-8", "replace").strip()


def _spawner() -> ThreadPoolExecutor:
    """One long-lived thread a process to start children from.

    bwrap's ``--die-with-parent`` is tied to the *thread* that started it: started from a worker thread,
    the sandbox would die with that thread. Kept by pid, because a fork does not inherit threads.
    """
    with _lock:
        if os.getpid() not in _spawners:
            _spawners.clear()
            _spawners[os.getpid()] = ThreadPoolExecutor(1, thread_name_prefix="sandbox-spawner")
        return _spawners[os.getpid()]
