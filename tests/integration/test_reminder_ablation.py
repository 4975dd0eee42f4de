"""The goal-reminder ablation on pocket tasks, with an agent that forgets what it was asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentic_gym.ablation import ReminderAblation, ablate_goal_reminder
from agentic_gym.agent import PolicyAgent
from agentic_gym.cli import main
from agentic_gym.envs.swe.baselines import make_baseline
from agentic_gym.envs.swe.eval_command import EvalConfig, env_factory
from agentic_gym.envs.swe.pocket import load_tasks
from agentic_gym.envs.swe.task import SWETask
from agentic_gym.store import RunStore
from agentic_gym.tools import format_action

pytestmark = pytest.mark.slow

LOOK = format_action([("undo", {})])
NUM_TASKS = 4


class Forgetful:
    """Repairs the bug when the task stands in what it reads last, and dawdles otherwise."""

    def __init__(self, heeds: str = "Reminder of the task") -> None:
        self._gold = make_baseline("gold")
        self._heeds = heeds
        self._awake = False

    def reset(self, task: SWETask, seed: int) -> None:
        self._gold.reset(task, seed)
        self._awake = False

    def act(self, observation: str, info: dict[str, Any]) -> str:
        self._awake |= self._heeds in observation
        return self._gold.act(observation, info) if self._awake else LOOK


def play(heeds: str, *, every: int = 2, store: RunStore | None = None) -> ReminderAblation:
    tasks = load_tasks("pocket", "dev")[:NUM_TASKS]
    by_id = {task.task_id: task for task in tasks}
    return ablate_goal_reminder(
        env_factory(EvalConfig(agent="gold", max_turns=6), tasks),
        lambda launch: PolicyAgent(Forgetful(heeds), task=by_id[launch.task_id]),
        every=every,
        task_ids=list(by_id),
        store=store,
        progress=False,
    )


def test_an_agent_that_loses_the_request_is_found(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        found = play("Reminder of the task", store=store)
        without, reminded = (store.eval_trajectories(name) for name in store.evals())
        assert store.evals() == ["eval/without_reminder", "eval/reminded_2"]
    assert (found.without.success.value, found.reminded.success.value) == (0.0, 1.0)
    assert found.difference.low > 0
    assert found.met == NUM_TASKS
    assert "loses the request" in found.meaning
    # The same episodes until the first reminder, which comes with the answer to turn 2.
    for one, other in zip(without, reminded, strict=True):
        assert (one.task_id, one.seed, one.prompt) == (other.task_id, other.seed, other.prompt)
        assert one.turns[0].observation == other.turns[0].observation
        assert other.turns[1].observation.startswith(one.turns[1].observation)
        assert "Reminder of the task" in other.turns[1].observation
        assert not any("Reminder of the task" in turn.observation for turn in one.turns)


def test_an_agent_that_needs_no_reminder_shows_no_difference() -> None:
    found = play("")
    assert found.without.success.value == found.reminded.success.value == 1.0
    assert found.difference.value == 0
    # Gold needs two turns: nobody went on after the second, and the sentence says so.
    assert (found.met, "none was reminded" in found.meaning) == (0, True)


def test_the_command_plays_both_sides_and_keeps_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["eval", "--agent", "noop", "--split", "dev", "--num-tasks", "2", "--max-turns", "4"]
    words += ["--ablate-goal-reminder", "1", "--output-dir", str(tmp_path / "out")]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "Reminded minus without: +0.0 [" in said
    kept = json.loads((tmp_path / "out" / "eval.json").read_text())
    assert kept["every"] == 1
    assert kept["meaning"] in said
    with RunStore(tmp_path / "out", readonly=True) as store:
        assert store.evals() == ["eval/without_reminder", "eval/reminded_1"]
        assert len(store.eval_trajectories("eval/reminded_1")) == 2
