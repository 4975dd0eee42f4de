"""What a person sees of an update."""

from __future__ import annotations

import io
from types import SimpleNamespace

from rich.console import Console

from agentic_gym.trainers.progress import UpdateLines
from agentic_gym.trainers.schedules.registry import make_schedule


def test_the_line_of_an_update_names_the_schedule_that_a_plan_uses() -> None:
    plan = make_schedule("plan", 8, rules=[{"schedule": "relay", "rate": 0.3}])
    said = io.StringIO()
    lines = UpdateLines(Console(file=said), 3)
    logs = {"policy_loss": 0.0, "reward": 0.5, **plan.metrics()}  # type: ignore[attr-defined]
    lines.on_log(None, SimpleNamespace(global_step=2), None, logs)
    assert said.getvalue() == "  update 2/3: return 0.500, schedule sync\n"
