"""Choosing a backend: by name, or the best that works here."""

from __future__ import annotations

import functools

from agentic_gym.errors import ConfigError, SandboxUnavailable
from agentic_gym.sandbox.base import SandboxBackend
from agentic_gym.sandbox.bubblewrap import BubblewrapBackend
from agentic_gym.sandbox.unsafe import UnsafeBackend
from agentic_gym.suggest import did_you_mean

NAMES = ("auto", "bubblewrap", "unsafe")


def select_backend(name: str = "auto", *, allow_unsafe: bool = False) -> SandboxBackend:
    """The backend called ``name``; ``auto`` is the best that has been seen to work here.

    ``auto`` fails closed: it never falls back to running code unprotected.

    Args:
        name: "auto", "bubblewrap" or "unsafe".
        allow_unsafe: needed for "unsafe".

    Raises:
        ConfigError: there is no such backend, or "unsafe" without ``allow_unsafe``.
        SandboxUnavailable: none works on this machine; the message names the remedies.
    """
    if name not in NAMES:
        hint = did_you_mean(name, NAMES)
        raise ConfigError(f"there is no sandbox backend {name!r}; known: {', '.join(NAMES)}.{hint}")
    if name == "unsafe":
        return UnsafeBackend(allow_unsafe=allow_unsafe)
    try:
        return _working_bubblewrap()
    except SandboxUnavailable as error:
        raise SandboxUnavailable(
            f"no sandbox works here, so no agent's code will be run. {error}. Without a sandbox, and "
            "only for code that you trust: backend 'unsafe' with allow_unsafe=True"
        ) from error


@functools.cache
def _working_bubblewrap() -> BubblewrapBackend:
    backend = BubblewrapBackend()
    refuse_open_doors(backend)
    return backend


def refuse_open_doors(backend: SandboxBackend) -> None:
    """Probes a backend.

    Raises:
        SandboxUnavailable: it does not work, or something is not isolated.
    """
    found = backend.probe()
    if doors := [what for what, how in found.items() if how == "no"]:
        raise SandboxUnavailable(
            f"{backend.name} runs here, but a look from inside shows that it does not isolate "
            f"{', '.join(doors)}"
        )
