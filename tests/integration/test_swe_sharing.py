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


def test_a_turn_that_goes_wrong_costs() -> None:
    env = SWEEnv(
        sandboxes=1, cache_tests=9, tools=["edit_lines", "undo", "submit"], test_after_edit=True,
        split="train", reward={"turn": 0.0, "progress": 0.0, "mishap": -1.0},
    )  # fmt: skip
    task = next(task for task in env.tasks if task.error_class == "logic")
    path = next(path for path in task.files if path not in task.visible_tests)
    first = task.files[path].splitlines()[0]

    def edit(line: int, text: str) -> str:
        return format_action([("edit_lines", {"path": path, "start": line, "text": text})])

    env.reset(seed=0, options={"task_id": task.task_id})
    turns = {
        "no call": ("I think it is fixed.", -1.0),
        "cut off": (edit(1, "# x")[:-20], -1.0),
        "refused": (edit(10_000, "# x"), -1.0),
        "nothing to take back": (format_action([("undo", {})]), -1.0),
        "nothing would change": (edit(1, first), 0.0),
        "right in form": (edit(1, "# x"), 0.0),
        "tests cannot be collected": (edit(1, "def ("), -1.0),
        "taken back": (format_action([("undo", {})]), 0.0),
        "not again": (format_action([("undo", {})]), 0.0),
    }
    assert {name: env.step(action)[1] for name, (action, _) in turns.items()} == {
        name: reward for name, (_, reward) in turns.items()
    }
    env.close()
