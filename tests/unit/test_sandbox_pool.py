"""A pool over workspaces in memory, whose backend and sandboxes can be made to fail."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator, Mapping
from typing import cast

import pytest

from agentic_gym.errors import SandboxError, SandboxUnavailable
from agentic_gym.sandbox.base import Sandbox, SandboxSpec
from agentic_gym.sandbox.leased import LeasedBackend, LeasedSandbox
from agentic_gym.sandbox.pool import SandboxPool


class Brittle(LeasedSandbox):
    """A workspace that can lose its disk."""

    error: BaseException | None = None

    def reset(self, files: Mapping[str, bytes] | None = None) -> None:
        if self.error is not None:
            raise self.error
        super().reset(files)


class Backend:
    """Makes workspaces without a process; they are never asked to run anything."""

    name = "memory"

    def __init__(self, *errors: Exception) -> None:
        self.errors = [*errors]
        self.made = threading.Event()

    def probe(self) -> Mapping[str, str]:
        return {}

    def start(self, spec: SandboxSpec) -> Sandbox:
        if self.errors:
            raise self.errors.pop(0)
        self.made.set()
        return Brittle(cast(LeasedBackend, None), spec.files)


@pytest.fixture
def pool() -> Iterator[SandboxPool]:
    with SandboxPool(Backend(), size=1) as made:
        yield made


def test_a_sandbox_that_cannot_be_cleaned_is_replaced(pool: SandboxPool) -> None:
    with pool.lease() as first:
        assert isinstance(first, Brittle)
        first.error = OSError(errno.ENOSPC, "full")
    with pool.lease(timeout_s=5) as second:
        assert second is not first
    assert not first.alive()


def test_an_interrupt_while_giving_back_loses_no_place(pool: SandboxPool) -> None:
    first = pool.acquire()
    assert isinstance(first, Brittle)
    first.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        pool.release(first)
    with pool.lease(timeout_s=5) as second:
        assert second is not first


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (OSError(errno.ENOSPC, "full"), SandboxError, "no sandbox can be made: .*full"),
        (RuntimeError("bug"), SandboxError, "no sandbox can be made: bug"),
        (SandboxUnavailable("no bwrap"), SandboxUnavailable, "no bwrap"),
    ],
)
def test_why_none_can_be_made_is_told_and_it_is_tried_again(
    error: Exception, kind: type[Exception], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentic_gym.sandbox.pool._RETRY_S", 0.05)
    backend = Backend(error)
    with SandboxPool(backend, size=1) as pool:
        with pytest.raises(kind, match=message):
            pool.acquire(timeout_s=5)
        for _ in range(100):
            try:
                assert pool.acquire(timeout_s=5).alive()
                return
            except kind:
                backend.made.wait(0.05)
        pytest.fail("it was not tried again")
