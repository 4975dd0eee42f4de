"""Environments that share sandboxes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from agentic_gym.envs.swe.env import SWEEnv
from agentic_gym.envs.swe.sharing import shared_sandboxes
from agentic_gym.errors import ConfigError
from agentic_gym.tools import format_action

pytestmark = pytest.mark.slow


def test_threads_share_one_set_of_sandboxes() -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: shared_sandboxes("auto", False, 1, 7), range(8)))
    assert all(pair is made[0] for pair in made)


def test_a_shell_cannot_be_shared() -> None:
    with pytest.raises(ConfigError, match="give tools without 'bash'"):
        SWEEnv(sandboxes=1)
    with pytest.raises(ConfigError, match="needs sandboxes"):
        SWEEnv(cache_tests=5)
    with pytest.raises(ConfigError, match="backend by its name"):
        SWEEnv(sandboxes=-1, tools=["submit"])


def test_episodes_in_turns_do_not_see_each_other() -> None:
    envs = [
        SWEEnv(
            sandboxes=1, cache_tests=9, tools=["view", "edit_lines", "submit"], compact=True,
            split="train", reward={"solve": 2.0},
        )
        for _ in range(2)
    ]  # fmt: skip
    task = envs[0].tasks[0]
    path = next(path for path in task.files if path not in task.visible_tests)
    for env in envs:
        env.reset(seed=0, options={"task_id": task.task_id})
    edit = {"path": path, "start": 1, "text": "# only here"}
    envs[0].step(format_action([("edit_lines", edit)]))
    look = format_action([("view", {"path": path, "start": 1, "end": 1})])
    assert envs[0].step(look)[0] == "1|# only here"
    assert envs[1].step(look)[0] == f"1|{task.files[path].splitlines()[0]}"
    for env in envs:
        assert env.step(format_action([("submit", {})]))[4]["outcome"] == "failed"
        env.close()
