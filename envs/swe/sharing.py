"""Sandboxes and a grader that all environments of a process share.

An environment of its own needs a sandbox for the agent and one for grading. Hundreds of episodes at once on
a few cores would spend their time starting them; here a few are lent for the length of a test run
(:mod:`~agentic_gym.sandbox.leased`).
"""

from __future__ import annotations

import threading

from agentic_gym.envs.swe.grading import Grader
from agentic_gym.sandbox.leased import LeasedBackend
from agentic_gym.sandbox.select import select_backend

_lock = threading.Lock()
_shared: dict[tuple[str, bool, int, int, bool], tuple[LeasedBackend, Grader]] = {}


def shared_sandboxes(
    backend: str,
    allow_unsafe: bool,
    sandboxes: int,
    cache_tests: int,
    adaptive_timeout: bool = False,
) -> tuple[LeasedBackend, Grader]:
    """The same objects for the same settings; they end with the process.

    Args:
        backend: name of the backend.
        allow_unsafe: see :func:`~agentic_gym.sandbox.select.select_backend`.
        sandboxes: for agents' test runs, and again as many for grading.
        cache_tests: test reports and verdicts that are kept.
        adaptive_timeout: of the grader.

    Raises:
        SandboxUnavailable: no backend works here.
    """
    key = (backend, allow_unsafe, sandboxes, cache_tests, adaptive_timeout)
    # Environments are made in many threads at once: functools.cache would let each make its own.
    with _lock:
        if key not in _shared:
            real = select_backend(backend, allow_unsafe=allow_unsafe)
            leased = LeasedBackend(real, size=sandboxes, cache_size=cache_tests)
            grader = Grader(
                real, size=sandboxes, cache_size=cache_tests, adaptive_timeout=adaptive_timeout
            )
            _shared[key] = leased, grader
        return _shared[key]
