"""A writer killed at random instants leaves a store that is whole and goes on."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentic_gym.store import RunStore

# Runs or resumes a toy run of 150 updates of 4 trajectories each, printing each update once trained.
WRITER = """
import sys
from agentic_gym.store import LaunchRecord, RunStore
from agentic_gym.types import Outcome, Trajectory, Turn

def trajectory(i):
    turns = (Turn("x" * 2000, i * 300, 1.0),) * 5
    return Trajectory(i, "task", "group", 0, "", turns, None, Outcome.SOLVED, True, False)

store = RunStore(sys.argv[1])
done = store.get_state("version", 0)
for update, ids in store.batches_after(done):
    store.mark_trained(update)
    store.put_state("version", update)
while store.get_state("version", 0) < 150:
    update = store.get_state("version", 0) + 1
    missing = 4 - len(store.buffered()) - len(store.in_flight())
    first = store.counts().launches
    store.launch([LaunchRecord(f"t{first + n}", "task", "group", 0, update) for n in range(missing)])
    for record in store.in_flight():
        store.finish(trajectory(record.trajectory_id))
    store.record_batch(update, [t.trajectory_id for t in store.buffered()][:4])
    store.mark_trained(update)
    store.put_state("version", update)
    print(update, flush=True)
"""


@pytest.mark.slow
def test_kill_9_at_random_instants_loses_nothing_and_trains_nothing_twice(tmp_path: Path) -> None:
    rng = random.Random(0)
    kills = 0
    for attempt in range(20):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        if kills < 12:
            process.stdout.readline()  # it writes now
            time.sleep(rng.uniform(0, 0.02))
            process.kill()
        process.communicate()
        status = process.returncode
        kills += status == -signal.SIGKILL
        with RunStore(tmp_path, readonly=True) as store:
            store.check_conservation()
        if not status:
            break
        assert status == -signal.SIGKILL, f"attempt {attempt} failed by itself"
    assert kills >= 10
    with RunStore(tmp_path) as store:
        counts = store.check_conservation()
        trained = [i for _, ids in store.batches_after(0) for i in ids]
        assert counts.trained == counts.launches == len(set(trained)) == len(trained) == 600
