"""The host's side of a sandbox: the :class:`~agentic_gym.sandbox.base.Sandbox` that every backend returns.

Every call has a deadline on this side too, so that a supervisor that hangs becomes ``SandboxDead`` rather
than a thread that never returns. A call that fails in any way that leaves the conversation out of step
ends the sandbox.
"""

from __future__ import annotations

import atexit
import builtins
import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from agentic_gym.errors import SandboxDead, SandboxError
from agentic_gym.sandbox.base import ExecResult, SandboxSpec, TestReport
from agentic_gym.sandbox.diffing import Change, tree_diff
from agentic_gym.sandbox.inside.wire import Channel, ChannelClosed, ChannelTimeout

_CALL_S = 60.0  # for calls whose work is bounded by the size of the workspace
_GRACE_S = 30.0  # beyond a command's own time limit, which the supervisor enforces
_RUNNER_GRACE_S = 60.0
_FILE_ERRORS = ("FileNotFoundError", "IsADirectoryError", "PermissionError", "NotADirectoryError")


_living: weakref.WeakSet[ClientSandbox] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Closes what is still open when this process ends in order; otherwise the kernel ends it."""
    for sandbox in list(_living):
        sandbox.close()


class ClientSandbox:
    """A living sandbox behind a channel. Thread-safe: calls wait for each other.

    Args:
        channel: to the supervisor, which has not been spoken to yet.
        spec: what the sandbox is made from.
        config: the backend's part of the supervisor's configuration.
        end: ends every process and frees everything; called once.
        oom_kills: counter of processes that the memory limit ended, where there is one.
        describe_death: what the dying sandbox said, for the error.

    Raises:
        SandboxError: the supervisor did not start.
    """

    def __init__(
        self,
        channel: Channel,
        spec: SandboxSpec,
        config: Mapping[str, Any],
        *,
        end: Callable[[], None],
        oom_kills: Callable[[], int] = lambda: 0,
        describe_death: Callable[[], str] = lambda: "",
    ) -> None:
        self._channel = channel
        self._end = end
        self._oom_kills = oom_kills
        self._describe_death = describe_death
        self._lock = threading.Lock()
        self._death: str | None = None
        self._closed = False
        self._close_lock = threading.Lock()
        self._base = dict(spec.files)
        self._owner = os.getpid()
        _living.add(self)
        try:
            request = {**config, "paths": _checked_paths(self._base)}
            self._call(request, list(self._base.values()), timeout_s=_CALL_S)
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise SandboxError(f"the sandbox could not be set up: {error}") from error
            raise

    def exec(self, command: str, *, timeout_s: float = 30.0) -> ExecResult:
        """See :meth:`agentic_gym.sandbox.base.Sandbox.exec`."""
        if "\0" in command:
            text = "a command cannot hold a NUL byte"
            return ExecResult(rc=2, output=text, total_bytes=len(text))
        before = self._oom_kills()
        answer, blobs = self._call(
            {"op": "exec", "timeout_s": timeout_s},
            [command.encode("utf-8", "replace")],
            timeout_s=timeout_s + _GRACE_S,
        )
        return ExecResult(
            output=blobs[0].decode("utf-8", "replace"), oom=self._oom_kills() > before, **answer
        )

    def run_pytest(
        self, args: Sequence[str], *, timeout_s: float = 30.0, hardened: bool = False
    ) -> TestReport:
        """See :meth:`agentic_gym.sandbox.base.Sandbox.run_pytest`."""
        answer, blobs = self._call(
            {"op": "pytest", "args": list(args), "timeout_s": timeout_s, "hardened": hardened},
            timeout_s=timeout_s + _RUNNER_GRACE_S,
        )
        duplicates = tuple(answer.pop("duplicates"))
        output = blobs[0].decode("utf-8", "replace")
        return TestReport(output=output, duplicates=duplicates, **answer)

    def read_file(self, path: str) -> bytes:
        """See :meth:`agentic_gym.sandbox.base.Sandbox.read_file`."""
        return self._call({"op": "read", "path": path})[1][0]

    def write_file(self, path: str, content: bytes) -> None:
        """See :meth:`agentic_gym.sandbox.base.Sandbox.write_file`."""
        self.put_tree({path: content})

    def put_tree(self, files: Mapping[str, bytes]) -> None:
        """See :meth:`agentic_gym.sandbox.base.Sandbox.put_tree`."""
        self._call({"op": "write", "paths": list(files)}, list(files.values()))

    def list_files(self) -> list[str]:
        """See :meth:`agentic_gym.sandbox.base.Sandbox.list_files`."""
        return list(self._call({"op": "list"})[0]["paths"])

    def diff(self) -> bytes:
        """See :meth:`agentic_gym.sandbox.base.Sandbox.diff`."""
        answer, blobs = self._call({"op": "changes"})
        changes = [
            Change(
                path=entry["path"],
                mode=entry["mode"],
                content=None if entry["blob"] is None else blobs[entry["blob"]],
            )
            for entry in answer["entries"]
        ]
        return tree_diff(self._base, changes)

    def reset(self, files: Mapping[str, bytes] | None = None) -> None:
        """See :meth:`agentic_gym.sandbox.base.Sandbox.reset`."""
        if files is None:
            self._call({"op": "reset", "paths": None})
            return
        base = dict(files)
        self._call({"op": "reset", "paths": _checked_paths(base)}, list(base.values()))
        self._base = base

    def alive(self) -> bool:
        """See :meth:`agentic_gym.sandbox.base.Sandbox.alive`."""
        try:
            self._call({"op": "ping"}, timeout_s=5.0)
        except SandboxDead:
            return False
        return True

    def close(self) -> None:
        """See :meth:`agentic_gym.sandbox.base.Sandbox.close`."""
        with self._close_lock:
            if self._closed or os.getpid() != self._owner:
                return
            self._closed = True
        if self._death is None:
            self._death = "it was closed"
        self._end()  # first: a call in another thread sees the end of the stream and lets go
        with self._lock:
            self._channel.close()

    def _call(
        self,
        request: dict[str, Any],
        blobs: Sequence[bytes] = (),
        *,
        timeout_s: float = _CALL_S,
    ) -> tuple[dict[str, Any], list[bytes]]:
        what = request.get("op", "start")
        with self._lock:
            if os.getpid() != self._owner:
                raise SandboxError(
                    "a sandbox cannot be used from a fork of the process that made it"
                )
            if self._death is not None:
                raise SandboxDead(f"the sandbox is dead ({self._death}); {what} was asked of it")
            try:
                self._channel.send(request, blobs, timeout_s=timeout_s)
                answer, data = self._channel.receive(timeout_s=timeout_s)
            except ChannelTimeout:
                reason = f"no answer to {what} within {timeout_s:.0f} s"
            except ChannelClosed:
                reason = f"it ended during {what}"
            except BaseException:  # a KeyboardInterrupt in mid frame: the line is out of step
                self._death = f"{what} was interrupted"
                raise
            else:
                if "error" in answer:
                    raise _host_error(answer)
                return answer, data
            self._death = self._death or reason
        self.close()
        said = self._describe_death()
        raise SandboxDead(f"the sandbox is dead: {self._death}{said and f' ({said})'}")


def _host_error(answer: Mapping[str, Any]) -> Exception:
    """The exception that the supervisor met, limited to those that the protocol names."""
    if answer["error"] in _FILE_ERRORS:
        kind: type[OSError] = getattr(builtins, answer["error"])
        return kind(answer["message"])
    if answer["errno"] is not None:
        return OSError(answer["errno"], answer["message"])
    return SandboxError(f"the supervisor answered {answer['error']}: {answer['message']}")


def _checked_paths(files: Mapping[str, bytes]) -> list[str]:
    for path in files:
        parts = PurePosixPath(path).parts
        with contextlib.suppress(UnicodeEncodeError):
            path.encode("utf-8", "surrogateescape")
            if parts and not path.startswith("/") and ".." not in parts and "\0" not in path:
                continue
        raise SandboxError(f"{path!r} is no relative POSIX path below the workspace")
    return list(files)
