"""Tests that the runner runs once, when it starts, so that forks find pytest's code and caches warm.

One passes and two fail, because showing a failure is the costliest part of a small run. Not named
``test_*.py``, so that nobody else collects it.
"""

from __future__ import annotations

from typing import Any


def test_passes(monkeypatch: Any, capsys: Any) -> None:
    """Uses the common fixtures."""
    print("sample")
    assert capsys.readouterr().out


def test_fails() -> None:
    """Shows compared values."""
    assert {"a": [1, 2]} == {"a": [1, 3]}


def test_raises() -> None:
    """Shows a traceback of several frames."""
    _raise()


def _raise() -> None:
    raise ValueError("sample")
