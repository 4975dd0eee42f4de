"""What went wrong in a turn: said by the environment, recorded with the episode, read by the diagnosis."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import agentic_gym
from agentic_gym.agent import PolicyAgent
from agentic_gym.envs.swe.env import SWEEnv
from agentic_gym.envs.swe.task import SWETask
from agentic_gym.episode import Launch
from agentic_gym.rollout import Rollout
from agentic_gym.store import LaunchRecord, RunStore
from agentic_gym.tools import format_action
from agentic_gym.trainers.diagnosis.episodes import figures
from agentic_gym.types import Trajectory

pytestmark = pytest.mark.slow

TOOLS = ("edit_lines", "undo", "view", "submit")


def make_env() -> SWEEnv:
    return SWEEnv(sandboxes=1, cache_tests=9, tools=TOOLS, test_after_edit=True, compact=True)


@pytest.fixture(scope="module")
def env() -> Iterator[SWEEnv]:
    made = make_env()
    yield made
    made.close()


def calls(*made: tuple[str, dict[str, object]]) -> str:
    return format_action(list(made))


def turns_of(path: str, first: str) -> list[tuple[str, str | None]]:
    """Actions in this order, with what goes wrong in each."""

    def edit(line: int, text: str) -> tuple[str, dict[str, object]]:
        return "edit_lines", {"path": path, "start": line, "text": text}

    look: tuple[str, dict[str, object]] = ("view", {"path": path})
    return [
        ("I think it is fixed.", "no_call"),
        (calls(edit(1, "# x"))[:-20], "refused"),  # cut off
        (calls(edit(10_000, "# x")), "refused"),
        (calls(look, ("bash", {"command": "ls"})), "refused"),  # no such tool here
        (calls(edit(1, first)), None),  # idle
        (calls(look), None),
        (calls(edit(1, "def (")), "broken_tests"),
        (calls(look), None),  # still broken, and not by this turn
        (calls(edit(1, "def ("), edit(2, "def [")), "broken_tests"),
        (calls(edit(2, "def {"), edit(10_000, "x")), "refused"),
        (calls(("undo", {})), None),
        (calls(("submit", {})), None),
    ]


def script_of(env: SWEEnv) -> tuple[SWETask, list[tuple[str, str | None]]]:
    """A task whose tests can be collected as it is, and what is done to it."""
    task = next(task for task in env.tasks if task.error_class == "logic")
    path = next(path for path in task.files if path not in task.visible_tests)
    return task, turns_of(path, task.files[path].splitlines()[0])


def played(env: SWEEnv) -> tuple[Trajectory, list[str | None]]:
    task, script = script_of(env)
    left = [action for action, _ in script]
    with Rollout(make_env, lambda _: PolicyAgent(lambda _o, _i: left.pop(0))) as rollout:
        (trajectory,) = rollout.collect(
            [Launch("t", task.task_id, "g", 0, {"task_id": task.task_id})], progress=False
        )
    return trajectory, [mishap for _, mishap in script]


def test_each_turn_says_what_went_wrong_and_the_store_keeps_it(env: SWEEnv, tmp_path: Path) -> None:
    trajectory, wanted = played(env)
    assert trajectory.error is None
    with RunStore(tmp_path) as store:
        store.launch([LaunchRecord("t", trajectory.task_id, "g", 0, 0)])
        store.finish(trajectory)
        (kept,) = store.trajectories(["t"])
    assert [turn.info["mishap"] for turn in kept.turns] == wanted
    found = figures([kept])
    assert found["batch.mishaps"] == pytest.approx(7 / 12)
    assert found["batch.mishap.refused"] == pytest.approx(4 / 12)
    assert found["batch.mishap.broken_tests"] == pytest.approx(2 / 12)
    assert found["batch.mishap.no_call"] == pytest.approx(1 / 12)


def test_no_agent_reads_it_and_the_reward_says_the_same() -> None:
    paid = SWEEnv(
        sandboxes=1, cache_tests=9, tools=TOOLS, test_after_edit=True, compact=True,
        reward={"turn": 0.0, "progress": 0.0, "solve": 0.0, "mishap": -1.0},
    )  # fmt: skip
    task, script = script_of(paid)
    _, begun = paid.reset(seed=0, options={"task_id": task.task_id})
    assert "mishap" not in begun
    for action, mishap in script:
        observation, reward, _, _, info = paid.step(action)
        assert info["mishap"] == mishap
        assert reward == (0.0 if mishap is None else -1.0)
        assert "mishap" not in observation
        assert all("mishap" not in str(message) for message in info["messages"])
    paid.close()


def test_an_end_by_budget_leaves_the_last_turn_what_it_was() -> None:
    made = agentic_gym.make(
        "agentic_gym/SWE-v0", sandboxes=1, cache_tests=9, tools=TOOLS, max_turns=1
    )
    made.reset(seed=0)
    *_, truncated, info = made.step("hm")
    assert (truncated, info["outcome"], info["mishap"]) == (True, "truncated", "no_call")
    made.close()
