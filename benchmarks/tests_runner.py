"""A run of the warm test runner against starting pytest, side by side in one living sandbox.

The suite has seven tests, of which one fails. Three ways take turns; the time is what the caller waits.

1. ``cold``: ``python -m pytest`` in the sandbox's shell.
2. ``warm``: the runner, as the agent's test command uses it.
3. ``hardened``: the runner, as grading uses it.

    python benchmarks/tests_runner.py --rounds 20
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentic_gym.sandbox.base import SandboxSpec
from agentic_gym.sandbox.select import select_backend

_TESTS = "".join(
    f"def test_{n}():\n    assert overlap((0, {n}), (2, 9)) == {max(0, n - 2)}\n\n\n"
    for n in range(6)
)
FILES = {
    "intervals.py": b"def overlap(a, b):\n    return max(0, min(a[1], b[1]) - max(a[0], b[0]))\n",
    "tests/test_intervals.py": (
        f"from intervals import overlap\n\n\n{_TESTS}"
        "def test_fails():\n    assert overlap((0, 1), (0, 1)) == 2\n"
    ).encode(),
}


def milliseconds(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return (time.perf_counter() - begin) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--output", type=Path, help="append the result to this JSONL file")
    options = parser.parse_args()
    sandbox = select_backend().start(SandboxSpec(files=FILES))
    ways: dict[str, Callable[[], object]] = {
        "cold": lambda: sandbox.exec("python -m pytest -p no:cacheprovider"),
        "warm": lambda: sandbox.run_pytest([]),
        "hardened": lambda: sandbox.run_pytest(["tests/test_intervals.py"], hardened=True),
    }
    times: dict[str, list[float]] = {name: [milliseconds(call)] for name, call in ways.items()}
    for found in times.values():
        found.clear()  # the first of each was the warm-up
    for _ in range(options.rounds):
        for name, call in ways.items():
            times[name].append(milliseconds(call))
    sandbox.close()
    result: dict[str, Any] = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {platform.system()}, {os.cpu_count()} cores",
        "load": round(os.getloadavg()[0], 1),
        "rounds": options.rounds,
    }
    for name, found in times.items():
        result[f"median_ms_{name}"] = round(statistics.median(found), 1)
        result[f"best_ms_{name}"] = round(min(found), 1)
    for name in ("warm", "hardened"):
        ratio = statistics.median(times["cold"]) / statistics.median(times[name])
        result[f"ratio_{name}"] = round(ratio, 2)
        result[f"ratio_of_best_{name}"] = round(min(times["cold"]) / min(times[name]), 2)
    for key, value in result.items():
        print(f"{key:28} {value}")
    if options.output is not None:
        with options.output.open("a") as file:
            file.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
