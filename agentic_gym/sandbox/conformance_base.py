"""What the conformance checks are made of; see :mod:`agentic_gym.sandbox.conformance`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from agentic_gym.errors import AgenticGymError
from agentic_gym.sandbox.base import Sandbox, SandboxSpec

SECRET_VARIABLE = "AGENTIC_GYM_CONFORMANCE_SECRET"
"""Set in the environment of the process that starts a checked sandbox."""

TREE = {
    "a.py": b"def inc(x):\n    return x + 1\n",
    "crlf.txt": b"a=1\r\nb=2\r\n",
    "empty": b"",
    "no newline": b"last",
    "pkg/deep/er.txt": b"deep\n",
    "test_a.py": b"from a import inc\n\n\ndef test_one():\n    assert inc(1) == 2\n\n\n"
    b"def test_two():\n    assert inc(1) == 3\n",
}
SPEC = SandboxSpec(files=TREE, memory_bytes=256 * 2**20, disk_bytes=64 * 2**20, max_processes=64)


class ConformanceError(AgenticGymError):
    """A backend does not do what the protocol asks."""


@dataclass(frozen=True)
class Check:
    """One thing that a backend must do.

    Attributes:
        name: short, for reports.
        run: takes a fresh sandbox made from ``spec``; raises :class:`ConformanceError`.
        isolation: whether it is about keeping the agent in.
        spec: what the sandbox is made from.
    """

    name: str
    run: Callable[[Sandbox], None]
    isolation: bool = False
    spec: SandboxSpec = field(default=SPEC)


def expect(condition: object, message: str) -> None:
    """Raises :class:`ConformanceError` unless ``condition`` holds."""
    if not condition:
        raise ConformanceError(message)


def output(sandbox: Sandbox, command: str, timeout_s: float = 20.0) -> str:
    """Output of a command that must succeed."""
    result = sandbox.exec(command, timeout_s=timeout_s)
    expect(result.rc == 0, f"{command!r} ended with {result.rc}: {result.output}")
    return result.output


def raises(kind: type[Exception], call: Callable[[], object]) -> None:
    """Fails unless ``call`` raises ``kind``."""
    try:
        result = call()
    except kind:
        return
    except Exception as error:
        raise ConformanceError(
            f"{type(error).__name__}({error}) instead of {kind.__name__}"
        ) from error
    raise ConformanceError(f"{result!r} instead of {kind.__name__}")
