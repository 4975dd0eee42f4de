"""A clean workspace in a living sandbox against copying one, side by side, with 50 and with 2,000 files.

Each time the workspace is dirtied and a process is left behind first. The ways take turns:

1. ``copy``: on the host's disk, the tree is removed and copied again; this ends no process.
2. ``reset``: back to the same tree: processes ended, new writable layer, new temporary folders.
3. ``reset_and_shell``: the same and the first command of the new shell.
4. ``new_tree``: reset to a tree that is sent along, as when a pool lends the sandbox for another task.

    python benchmarks/reset.py --rounds 20
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentic_gym.sandbox.base import Sandbox, SandboxSpec
from agentic_gym.sandbox.select import select_backend


def milliseconds(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return (time.perf_counter() - begin) * 1e3


def measure(sandbox: Sandbox, count: int, rounds: int) -> dict[str, list[float]]:
    tree = {f"src/part{n // 50}/m{n}.py": b"VALUE = %d\n" % n * 20 for n in range(count)}
    sandbox.reset(tree)
    with tempfile.TemporaryDirectory() as folder:
        base, work = Path(folder, "base"), Path(folder, "work")
        for path, content in tree.items():
            target = base / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        shutil.copytree(base, work)

        def copy() -> None:
            shutil.rmtree(work)
            shutil.copytree(base, work)

        def reset_and_shell() -> None:
            sandbox.reset()
            sandbox.exec("true")

        ways: dict[str, Callable[[], object]] = {
            "copy": copy,
            "reset": sandbox.reset,
            "reset_and_shell": reset_and_shell,
            "new_tree": lambda: sandbox.reset(tree),
        }
        times: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(rounds):
            for name, call in ways.items():
                sandbox.exec("rm -r src/part0; echo x > new; (setsid sleep 1000 &)")
                times[name].append(milliseconds(call))
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--output", type=Path, help="append the result to this JSONL file")
    options = parser.parse_args()
    result: dict[str, Any] = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {platform.system()}, {os.cpu_count()} cores",
        "load": round(os.getloadavg()[0], 1),
        "rounds": options.rounds,
    }
    sandbox = select_backend().start(SandboxSpec())
    for count in (50, 2000):
        times = measure(sandbox, count, options.rounds)
        copied = times["copy"]
        for name, found in times.items():
            result[f"median_ms_{name}_{count}"] = round(statistics.median(found), 2)
            result[f"best_ms_{name}_{count}"] = round(min(found), 2)
            if found is not copied:
                ratio = statistics.median(copied) / statistics.median(found)
                result[f"ratio_{name}_{count}"] = round(ratio, 1)
                result[f"ratio_of_best_{name}_{count}"] = round(min(copied) / min(found), 1)
    sandbox.close()
    for key, value in result.items():
        print(f"{key:36} {value}")
    if options.output is not None:
        with options.output.open("a") as file:
            file.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
