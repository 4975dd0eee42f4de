"""The pytest plugin that reports results over a private descriptor, and the reader of that report.

Each record carries a key that only the plugin and the reader know, so that a test which finds the
descriptor and writes to it is noticed. Code that runs in the same process and studies this module can
still forge: graders add tests that must fail (docs/sandbox.md).
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable
from typing import Any

_SIZE = struct.Struct("!I")
_KEY_BYTES = 16
_MESSAGE_BYTES = 4000
_MAX_BYTES = 64 * 2**20  # of one report: some hundred thousand tests


class Reporter:
    """Sends one record for each finished test and each file that could not be collected.

    Args:
        send: takes one record; only the process that made the reporter may use it.
    """

    def __init__(self, send: Callable[[list[Any]], None]) -> None:
        self._send = send
        self._pending: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Collects the phases of a test; its teardown is the last."""
        phase = _phase_outcome(report)
        before = self._pending.get(report.nodeid, "passed")
        if _RANK[phase] > _RANK[before] or report.nodeid not in self._pending:
            self._pending[report.nodeid] = phase
        if report.when == "teardown":
            self._send(["test", report.nodeid, self._pending.pop(report.nodeid)])

    def pytest_collectreport(self, report: Any) -> None:
        """Reports what could not be collected."""
        if report.failed:
            text = str(report.longreprtext)[-_MESSAGE_BYTES:]
            self._send(["collect", report.nodeid, text])

    def pytest_addoption(self, parser: Any) -> None:
        """Accepts options that a repository's ini may name and that have no effect here.

        Those of pytest-xdist, for runs use one process, and those of the cache, for it is switched off.
        """
        group = parser.getgroup("no effect here")
        for names in (("-n", "--numprocesses"), ("--dist",), ("--maxprocesses",)):
            group._addoption(*names, dest="ignored_" + names[-1][2:], default=None)
        for names in (
            ("--lf", "--last-failed"),
            ("--ff", "--failed-first"),
            ("--nf", "--new-first"),
        ):
            group._addoption(*names, dest="ignored_" + names[-1][2:], action="store_true")


_RANK = {"passed": 0, "skipped": 1, "failed": 2, "error": 3}


def _phase_outcome(report: Any) -> str:
    if report.failed:
        return "failed" if report.when == "call" else "error"
    return "skipped" if report.skipped else "passed"


def sender(fd: int, key: bytes) -> Callable[[list[Any]], None]:
    """A function that writes records to ``fd``, for this process only: a fork of it stays silent."""
    owner = os.getpid()

    def send(record: list[Any]) -> None:
        if os.getpid() == owner:
            data = json.dumps(record).encode()
            view = memoryview(key + _SIZE.pack(len(data)) + data)
            while view:
                view = view[os.write(fd, view) :]

    return send


class Results:
    """Reads what :func:`sender` wrote, as it comes.

    Args:
        key: what each record must begin with.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._buffer = bytearray()
        self._room = _MAX_BYTES
        self.outcomes: dict[str, str] = {}
        self.duplicates: list[str] = []
        self.collection_errors: dict[str, str] = {}
        self.exit_code: int | None = None
        self.tampered = False

    def add(self, data: bytes) -> None:
        """Takes the next bytes."""
        if self.tampered:
            return
        self._room -= len(data)
        if self._room < 0:
            self.tampered = True
            return
        self._buffer += data
        prefix = _KEY_BYTES + _SIZE.size
        while len(self._buffer) >= prefix:
            if self._buffer[:_KEY_BYTES] != self._key:
                self.tampered = True
                return
            end = prefix + _SIZE.unpack_from(self._buffer, _KEY_BYTES)[0]
            if len(self._buffer) < end:
                return
            try:
                self._take(json.loads(self._buffer[prefix:end]))
            except (ValueError, RecursionError):  # who knows the key need not keep the form
                self.tampered = True
                return
            del self._buffer[:end]

    def close(self, process_exit: int | None) -> None:
        """Ends the report: the status that pytest gave must be the one the process ended with."""
        if self.tampered or self._buffer or self.exit_code != process_exit:
            self.exit_code = None

    def _take(self, record: Any) -> None:
        match record:
            case ["end", int(code)]:
                self.exit_code = code
            case ["collect", str(path), str(text)]:
                self.collection_errors[path] = text
            case ["test", str(node_id), str(status)] if status in _RANK:
                if node_id in self.outcomes:
                    self.duplicates.append(node_id)
                else:
                    self.outcomes[node_id] = status
            case _:
                raise ValueError("no record of ours")
