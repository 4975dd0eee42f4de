"""Full episodes a minute with 1, 2 and 4 workers, and where their time goes.

Each episode is that of an agent that looks, tests, repairs, tests and submits in a real sandbox: reset, view,
run_tests, edit, run_tests, submit (graded in a fresh sandbox). No model: this is what the environment costs.

    python benchmarks/episodes.py [--episodes 24]
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor

from agentic_gym.envs.swe.baselines import make_baseline
from agentic_gym.envs.swe.env import SWEEnv
from agentic_gym.envs.swe.observations import source_files
from agentic_gym.envs.swe.pocket import load_tasks
from agentic_gym.envs.swe.task import SWETask
from agentic_gym.tools import format_action

PHASES = ("reset", "view", "run_tests", "edit", "submit")


def play(env: SWEEnv, task: SWETask, spent: dict[str, float]) -> bool:
    """One episode; adds the seconds of each phase to ``spent``."""
    gold = make_baseline("gold")
    gold.reset(task, 0)
    path = next(iter(source_files(task)))

    def timed(phase: str, action: str) -> str:
        began = time.perf_counter()
        info = env.step(action)[4]
        spent[phase] += time.perf_counter() - began
        return str(info.get("outcome", ""))

    began = time.perf_counter()
    env.reset(seed=0, options={"task_id": task.task_id})
    spent["reset"] += time.perf_counter() - began
    timed("view", format_action([("view", {"path": path})]))
    timed("run_tests", format_action([("run_tests", {})]))
    timed("edit", gold.act("", {}))
    timed("run_tests", format_action([("run_tests", {})]))
    return timed("submit", format_action([("submit", {})])) == "solved"


def measure(tasks: list[SWETask], workers: int) -> tuple[float, dict[str, float]]:
    """Episodes a minute, and seconds of each phase per episode."""
    spent: list[dict[str, float]] = [defaultdict(float) for _ in range(workers)]
    envs = [SWEEnv(tasks=tasks, split=None) for _ in range(workers)]
    for env in envs:  # the sandboxes are started before the clock
        play(env, tasks[0], defaultdict(float))
    for (
        task
    ) in tasks:  # the visible tests of a base tree are run once a process: not in one row alone
        envs[0].reset(seed=0, options={"task_id": task.task_id})

    def work(worker: int) -> int:
        return sum(play(envs[worker], task, spent[worker]) for task in tasks[worker::workers])

    began = time.perf_counter()
    with ThreadPoolExecutor(workers) as pool:
        solved = sum(pool.map(work, range(workers)))
    seconds = time.perf_counter() - began
    for env in envs:
        env.close()
    if solved != len(tasks):
        raise SystemExit(f"gold solved only {solved} of {len(tasks)} tasks: nothing to compare")
    per_episode = {phase: sum(s[phase] for s in spent) / len(tasks) for phase in PHASES}
    return 60 * len(tasks) / seconds, per_episode


def main() -> None:
    """Prints one row for each number of workers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=24, help="episodes for each row")
    count = parser.parse_args().episodes
    tasks = [task for task in load_tasks("pocket", "train") if task.error_class == "logic"][:count]
    print(
        "workers  episodes/min  ratio  " + "  ".join(f"{phase:>9}" for phase in PHASES) + "  (ms)"
    )
    first = 0.0
    for workers in (1, 2, 4):
        rate, spent = measure(tasks, workers)
        first = first or rate
        cells = "  ".join(f"{1000 * spent[phase]:9.0f}" for phase in PHASES)
        print(f"{workers:7}  {rate:12.0f}  {rate / first:4.2f}x  {cells}")


if __name__ == "__main__":
    main()
