"""The supervisor: answers the host over its standard input and output until the host is gone.

It runs as the first process of the sandbox, where no process of the agent can see, signal or trace it.
One request is answered at a time.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

from agentic_gym.sandbox.inside import files
from agentic_gym.sandbox.inside.isolation import Limits, Namespaces, Plain
from agentic_gym.sandbox.inside.shell import HostGone, Shell
from agentic_gym.sandbox.inside.wire import Channel, ChannelClosed, ChannelTimeout

_RUNNER_GRACE_S = 20.0  # what the runner gets beyond a run's own time limit, its start included

Answer = tuple[dict[str, Any], list[bytes]]


class Supervisor:
    """One sandbox, seen from inside.

    Args:
        channel: the line to the host.
        config: ``mode``, ``workspace``, ``env``, ``limits``, ``output_limit``, ``packages``.
        tree: the base files.
    """

    def __init__(self, channel: Channel, config: dict[str, Any], tree: dict[str, bytes]) -> None:
        self._channel = channel
        self._config = config
        limits = Limits(**config["limits"])
        self._isolation: Namespaces | Plain = (
            Namespaces(limits)
            if config["mode"] == "namespaces"
            else Plain(config["workspace"], limits)
        )
        self._isolation.prepare()
        self._runner = RunnerProcess(config, self._isolation, channel.read_fd)
        self._root = self._isolation.workspace
        self._isolation.set_base(tree)
        self._isolation.fresh()
        self._shell = Shell(self._isolation, config["env"], config["output_limit"], channel.read_fd)

    def serve(self) -> None:
        """Answers until the host closes the line."""
        handlers: dict[str, Callable[[dict[str, Any], list[bytes]], Answer]] = {
            "exec": self._exec,
            "pytest": self._pytest,
            "read": lambda request, _: ({}, [files.read(self._root, request["path"])]),
            "write": self._write,
            "list": lambda *_: ({"paths": files.listing(self._root)}, []),
            "changes": self._changes,
            "reset": self._reset,
            "ping": lambda *_: ({}, []),
        }
        try:
            while True:
                self._wait_for_request()
                request, blobs = self._channel.receive()
                try:
                    answer, data = handlers[request["op"]](request, blobs)
                except (OSError, ValueError) as error:
                    answer, data = _described(error), []
                self._channel.send(answer, data)
        except (ChannelClosed, HostGone):
            pass
        finally:
            self._shell.stop()
            self._runner.stop()
            self._isolation.leave()

    def _wait_for_request(self) -> None:
        while True:
            poll = select.poll()
            poll.register(self._channel.read_fd, select.POLLIN)
            if self._shell.output_fd >= 0:
                poll.register(self._shell.output_fd, select.POLLIN)
            events = dict(poll.poll())
            if self._channel.read_fd in events:
                return
            if events[self._shell.output_fd] & select.POLLIN:
                self._shell.drain()
            else:  # the shell and all its jobs ended by themselves
                self._shell.stop()

    def _exec(self, request: dict[str, Any], blobs: list[bytes]) -> Answer:
        result, output = self._shell.run(blobs[0], request["timeout_s"])
        return result, [output]

    def _pytest(self, request: dict[str, Any], blobs: list[bytes]) -> Answer:
        return self._runner.run(request)

    def _write(self, request: dict[str, Any], blobs: list[bytes]) -> Answer:
        for path, content in zip(request["paths"], blobs, strict=True):
            files.write(self._root, path, content)
        return {}, []

    def _changes(self, request: dict[str, Any], blobs: list[bytes]) -> Answer:
        entries, contents = files.changes(self._root, self._isolation.base)
        return {"entries": entries}, contents

    def _reset(self, request: dict[str, Any], blobs: list[bytes]) -> Answer:
        self._shell.stop()
        if request["paths"] is not None:
            self._isolation.set_base(dict(zip(request["paths"], blobs, strict=True)))
        self._isolation.fresh()
        return {}, []


class RunnerProcess:
    """The test runner's process: started at once, started again if it should die.

    Args:
        config: as for :class:`Supervisor`.
        isolation: told to spare the runner where it kills by search.
        control_fd: the host's end of the line.
    """

    def __init__(
        self, config: dict[str, Any], isolation: Namespaces | Plain, control_fd: int
    ) -> None:
        self._config = config
        self._isolation = isolation
        self._control_fd = control_fd
        self._start()

    def run(self, request: dict[str, Any]) -> Answer:
        """Passes a run on; the answer is an error if the runner died or hangs."""
        started = time.monotonic()
        try:
            self._channel.send(request)
            self._wait(started + request["timeout_s"] + _RUNNER_GRACE_S)
            return self._channel.receive(timeout_s=_RUNNER_GRACE_S)
        except (ChannelClosed, ChannelTimeout) as error:
            self.stop()
            self._start()
            lost = type(error).__name__
        after = time.monotonic() - started
        return {"error": "RunnerLost", "message": f"{lost} after {after:.1f} s", "errno": None}, []

    def stop(self) -> None:
        """Ends it."""
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        self._channel.close()

    def _wait(self, deadline: float) -> None:
        poll = select.poll()
        poll.register(self._channel.read_fd, select.POLLIN)
        poll.register(self._control_fd, 0)
        events = dict(poll.poll(max(0.0, deadline - time.monotonic()) * 1e3))
        if self._control_fd in events:
            raise HostGone

    def _start(self) -> None:
        request_r, request_w = os.pipe()
        answer_r, answer_w = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                os.dup2(request_r, 0)
                os.dup2(answer_w, 1)
                silence(2)
                boot = os.path.join(os.path.dirname(os.path.abspath(__file__)), "boot.py")
                os.execv(sys.executable, [sys.executable, "-I", "-S", "-B", boot, "runner"])
            finally:
                os._exit(126)
        os.close(request_r)
        os.close(answer_w)
        self._channel = Channel(answer_r, request_w)
        self._channel.send(self._config)
        if isinstance(self._isolation, Plain):
            self._isolation.spare(self._pid)


def _described(error: Exception) -> dict[str, Any]:
    if isinstance(error, UnicodeError):
        error = FileNotFoundError(str(error))
    code = error.errno if isinstance(error, OSError) else None
    return {"error": type(error).__name__, "message": str(error), "errno": code}


def take_standard_streams() -> Channel:
    """Moves standard input and output to private descriptors and puts nothing in their place."""
    channel_fds = os.dup(0), os.dup(1)
    silence(0, 1)
    return Channel(*channel_fds)


def silence(*fds: int) -> None:
    """Points descriptors at nothing."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in fds:
        os.dup2(null, fd)
    os.close(null)


def main() -> NoReturn:
    """Runs until the host is gone; as the first process, its end is the end of the sandbox."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = take_standard_streams()
    try:
        config, blobs = channel.receive()
        try:
            supervisor = Supervisor(
                channel, config, dict(zip(config.pop("paths"), blobs, strict=True))
            )
        except OSError as error:
            channel.send(_described(error))
            os._exit(1)
        silence(2)  # what was written there until now explains a failed start
        channel.send({})
        supervisor.serve()
    except ChannelClosed:
        pass
    os._exit(0)
