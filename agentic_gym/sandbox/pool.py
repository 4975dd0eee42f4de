"""Sandboxes made ahead and used again: an episode waits for a reset, not for a start.

A sandbox that comes back is reset at once, which ends all that the episode left running; it is reset once
more, to the tree asked for, when it is lent again. One that does not answer is replaced. Nothing needs to
be closed for the sandboxes to end with this process, however it ends; closing frees them earlier.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping
from types import TracebackType

from agentic_gym.errors import ConfigError, SandboxDead, SandboxError
from agentic_gym.sandbox.base import Sandbox, SandboxBackend, SandboxSpec

_RETRY_S = 1.0


class SandboxPool:
    """At most ``size`` sandboxes, lent one at a time to each caller. Thread-safe.

    Args:
        backend: makes the sandboxes.
        size: how many.
        spec: limits and environment of all of them; its ``files`` are the tree of a sandbox that is
            acquired without one.

    Raises:
        ConfigError: ``size`` is not positive.
    """

    def __init__(
        self, backend: SandboxBackend, *, size: int = 1, spec: SandboxSpec | None = None
    ) -> None:
        if size < 1:
            raise ConfigError(
                f"a pool of {size} sandboxes cannot lend any: size must be at least 1"
            )
        self._backend = backend
        self._size = size
        self._spec = spec or SandboxSpec()
        self._changed = threading.Condition()
        self._idle: list[Sandbox] = []
        self._lent: set[int] = set()
        self._error: SandboxError | None = None
        self._closed = False
        threading.Thread(target=self._make_ahead, name="sandbox-pool", daemon=True).start()

    def acquire(
        self, files: Mapping[str, bytes] | None = None, *, timeout_s: float = 120.0
    ) -> Sandbox:
        """Lends a sandbox with this tree; give it back with :meth:`release`.

        Args:
            files: the base tree; that of the pool's spec where None.
            timeout_s: how long to wait for one.

        Raises:
            SandboxError: none became free in time, none can be made, or the pool is closed.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            sandbox = self._take(deadline)
            try:
                sandbox.reset(self._spec.files if files is None else files)
            except SandboxDead:  # it died while it was idle
                self._discard(sandbox)
                continue
            except BaseException:
                self.release(sandbox)
                raise
            return sandbox

    def release(self, sandbox: Sandbox) -> None:
        """Takes a sandbox back; one that is dead is replaced.

        Raises:
            ConfigError: it is not lent by this pool.
        """
        with self._changed:
            if id(sandbox) not in self._lent:
                raise ConfigError("this sandbox is not lent by this pool, or was released before")
        try:
            sandbox.reset({})
        except (SandboxError, OSError):
            self._discard(sandbox)
            return
        except BaseException:
            self._discard(sandbox)
            raise
        with self._changed:
            self._lent.discard(id(sandbox))
            keep = not self._closed
            if keep:
                self._idle.append(sandbox)
            self._changed.notify_all()
        if not keep:
            sandbox.close()

    @contextlib.contextmanager
    def lease(
        self, files: Mapping[str, bytes] | None = None, *, timeout_s: float = 120.0
    ) -> Iterator[Sandbox]:
        """:meth:`acquire` and :meth:`release` around a block."""
        sandbox = self.acquire(files, timeout_s=timeout_s)
        try:
            yield sandbox
        finally:
            self.release(sandbox)

    def close(self) -> None:
        """Closes what is idle now, and what is lent when it comes back; idempotent."""
        with self._changed:
            self._closed = True
            idle, self._idle = self._idle, []
            self._changed.notify_all()
        for sandbox in idle:
            sandbox.close()

    def __enter__(self) -> SandboxPool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _take(self, deadline: float) -> Sandbox:
        with self._changed:
            while True:
                if self._closed:
                    raise SandboxError("the pool of sandboxes is closed")
                if self._idle:
                    sandbox = self._idle.pop()
                    self._lent.add(id(sandbox))
                    return sandbox
                if self._error is not None and not self._lent:
                    raise self._error
                left = deadline - time.monotonic()
                if left <= 0:
                    raise SandboxError(
                        f"no sandbox became free in time: all {len(self._lent)} of {self._size} are "
                        "in use; use a larger pool, or release sandboxes earlier"
                    )
                self._changed.wait(left)

    def _discard(self, sandbox: Sandbox) -> None:
        sandbox.close()
        with self._changed:
            self._lent.discard(id(sandbox))
            self._changed.notify_all()

    def _make_ahead(self) -> None:
        while True:
            with self._changed:
                while not self._closed and len(self._idle) + len(self._lent) >= self._size:
                    self._changed.wait()
                if self._closed:
                    return
            try:
                sandbox = self._backend.start(self._spec)
            except Exception as error:  # whatever it is: without this thread nothing is ever lent
                with self._changed:
                    self._error = SandboxError(f"no sandbox can be made: {error}")
                    if isinstance(error, SandboxError):
                        self._error = error
                    self._changed.notify_all()
                    self._changed.wait(_RETRY_S)
                continue
            with self._changed:
                self._error = None
                keep = not self._closed
                if keep:
                    self._idle.append(sandbox)
                self._changed.notify_all()
            if not keep:
                sandbox.close()
