"""Starting a sandbox's first process on the host."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import SimpleQueue

from agentic_gym.sandbox.inside.wire import Channel

_END_S = 5.0
_lock = threading.Lock()
_Job = tuple[Callable[[], "subprocess.Popen[bytes]"], "Future[subprocess.Popen[bytes]]"]
_spawners: dict[int, SimpleQueue[_Job]] = {}


class HostProcess:
    """A process with a channel over its standard input and output.

    Args:
        argv: program and arguments.
        env: its whole environment.
        pass_fds: descriptors it inherits.
    """

    def __init__(
        self, argv: Sequence[str], *, env: dict[str, str], pass_fds: Sequence[int] = ()
    ) -> None:
        ours, theirs = socket.socketpair()
        self._errors_r, errors_w = os.pipe()
        os.set_blocking(self._errors_r, False)
        try:
            self._process = _spawned(
                lambda: subprocess.Popen(
                    list(argv),
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=errors_w,
                    env=env,
                    pass_fds=tuple(pass_fds),
                    cwd="/",
                )
            )
        except BaseException:
            ours.close()
            os.close(self._errors_r)
            raise
        finally:
            theirs.close()
            os.close(errors_w)
        self.pid = self._process.pid
        fd = ours.detach()
        self.channel = Channel(fd, fd)
        self._errors = b""

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


def _spawned(start: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    """Runs ``start`` in one long-lived thread.

    bwrap's ``--die-with-parent`` is tied to the *thread* that started it: started from a worker thread,
    the sandbox would die with that thread. A daemon thread, so that it outlives what runs at exit. Kept
    by pid, because a fork does not inherit threads.
    """
    with _lock:
        if os.getpid() not in _spawners:
            _spawners.clear()
            jobs: SimpleQueue[_Job] = SimpleQueue()
            threading.Thread(
                target=_spawn_for_ever, args=(jobs,), name="sandbox-spawner", daemon=True
            ).start()
            _spawners[os.getpid()] = jobs
        jobs = _spawners[os.getpid()]
    future: Future[subprocess.Popen[bytes]] = Future()
    jobs.put((start, future))
    return future.result()


def _spawn_for_ever(jobs: SimpleQueue[_Job]) -> None:
    while True:
        start, future = jobs.get()
        try:
            future.set_result(start())
        except BaseException as error:
            future.set_exception(error)
