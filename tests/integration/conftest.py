"""Fixtures that several files of tests use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentic_gym.envs.swe.grading import Grader
from agentic_gym.sandbox.base import SandboxBackend
from agentic_gym.sandbox.select import select_backend


@pytest.fixture(scope="module")
def backend() -> SandboxBackend:
    """The backend that works here."""
    return select_backend()


@pytest.fixture(scope="module")
def grader(backend: SandboxBackend) -> Iterator[Grader]:
    """A grader with one sandbox, for all tests of a file."""
    made = Grader(backend)
    yield made
    made.close()


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Torch with one thread: small tensors are slower on two."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
