from __future__ import annotations

import subprocess
import sys

import pytest

from agentic_gym.errors import ConfigError
from agentic_gym.trainers.selection import UniformTasks
from agentic_gym.trainers.taking_up import episode_seed


def test_each_lap_takes_every_task_once_in_an_order_of_its_own() -> None:
    tasks = UniformTasks([f"t{i}" for i in range(20)], seed=3)
    laps = [[tasks.next_task() for _ in range(20)] for _ in range(3)]
    assert all(sorted(lap) == sorted(laps[0]) for lap in laps)
    assert laps[0] != laps[1]
    assert laps[1] != laps[2]


def test_a_saved_cursor_continues_in_the_same_order() -> None:
    whole, first, second = (UniformTasks(["a", "b", "c"], seed=1) for _ in range(3))
    expected = [whole.next_task() for _ in range(8)]
    got = [first.next_task() for _ in range(5)]
    second.load_state_dict(first.state_dict())
    assert got + [second.next_task() for _ in range(3)] == expected


def test_tasks_must_be_distinct() -> None:
    with pytest.raises(ConfigError, match="distinct"):
        UniformTasks(["a", "a"])
    with pytest.raises(ConfigError, match="at least one"):
        UniformTasks([])


def test_episode_seeds_depend_on_place_alone_and_differ() -> None:
    seeds = [episode_seed(0, group, member) for group in range(50) for member in range(4)]
    assert len(set(seeds)) == 200
    assert seeds[5] == episode_seed(0, 1, 1)
    assert episode_seed(1, 1, 1) != seeds[5]


@pytest.mark.slow
def test_schedules_and_sources_need_no_torch() -> None:
    code = (
        "import sys, agentic_gym.trainers.schedules.sync, agentic_gym.trainers.source, "
        "agentic_gym.trainers.selection; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
