"""Does an agent lose the request over its turns? The same episodes, without and with the task re-stated.

Tasks and seeds are the same on both sides, so the difference is paired by task; until the first reminder an
agent that is deterministic by its seed plays the same episode twice.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from agentic_gym.env_thread import EnvFactory
from agentic_gym.errors import ConfigError
from agentic_gym.evaluation import (
    AgentFactory,
    EvalResult,
    causes_tables,
    evaluate,
    percent,
    results_table,
    success_difference,
    summarise,
)
from agentic_gym.metrics import Interval
from agentic_gym.registration import make
from agentic_gym.store import RunStore
from agentic_gym.types import Trajectory
from agentic_gym.wrappers import GoalReminder


@dataclass(frozen=True, slots=True)
class ReminderAblation:
    """What reminding changed.

    Attributes:
        every: turns between reminders.
        without: the agent as it is.
        reminded: the agent with reminders.
        difference: success with reminders minus without, paired by task.
        met: episodes in which the agent saw a reminder.
    """

    every: int
    without: EvalResult
    reminded: EvalResult
    difference: Interval
    met: int

    @property
    def meaning(self) -> str:
        """One sentence."""
        if not self.met:
            return (
                f"No episode went on after turn {self.every}, so none was reminded and nothing is "
                "learned: remind more often."
            )
        if math.isnan(self.difference.value):
            return "No task counts on both sides: look at the infra errors first."
        if self.difference.low > 0:
            return (
                "Reminded, the agent solves clearly more: it loses the request over its turns (train it "
                "with the reminder, or shorten what it reads)."
            )
        if self.difference.high < 0:
            return (
                "Reminded, the agent solves clearly less: the reminder disturbs it, and nothing says that "
                "it loses the request."
            )
        return (
            "No clear difference, so no sign that the agent loses the request (reminders gain at most "
            f"{100 * self.difference.high:.1f} points, by the interval)."
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain JSON-able values; a NaN becomes None."""
        numbers = {"value": self.difference.value, "low": self.difference.low}
        numbers["high"] = self.difference.high
        return {
            "every": self.every,
            "without": self.without.to_dict(),
            "reminded": self.reminded.to_dict(),
            "difference": {k: v if math.isfinite(v) else None for k, v in numbers.items()},
            "met": self.met,
            "meaning": self.meaning,
        }

    def to_json(self) -> str:
        """:meth:`to_dict` as JSON text."""
        return json.dumps(self.to_dict(), indent=2)

    def render(self, agent: str = "agent") -> str:
        """Both rates of an agent as a text table, the difference, and what it means."""
        from rich.console import Console

        both = {agent: self.without, f"{agent}, reminded every {self.every}": self.reminded}
        written = io.StringIO()
        Console(file=written, width=160).print(results_table(both), *causes_tables(both), sep="\n")
        return (
            f"{written.getvalue()}Reminded minus without: {percent(self.difference, signed=True)} points, "
            f"paired by task; {self.met} of {self.reminded.num_episodes} episodes saw a reminder.\n"
            f"{self.meaning}\n"
        )


def ablate_goal_reminder(
    env: str | EnvFactory,
    agent_factory: AgentFactory,
    *,
    every: int,
    task_ids: Sequence[str],
    samples_per_task: int = 1,
    concurrency: int = 16,
    seed: int = 0,
    episode_limit_s: float | None = 600.0,
    store: RunStore | None = None,
    name: str = "eval",
    progress: bool = True,
) -> ReminderAblation:
    """Plays the same episodes without and with :class:`~agentic_gym.wrappers.GoalReminder`.

    Args:
        env: an environment's id, or a function that makes one; without a reminder of its own.
        agent_factory: makes the agent of an episode.
        every: turns between reminders.
        task_ids: which tasks.
        samples_per_task: episodes a task, on each side.
        concurrency: episodes at once.
        seed: of both sides.
        episode_limit_s: wall-clock budget of an episode; None: none.
        store: keeps the trajectories, under ``<name>/without_reminder`` and ``<name>/reminded_<every>``.
        name: of the evaluation.
        progress: show a bar on standard error.

    Raises:
        ConfigError: ``every`` is below 1; or see :func:`~agentic_gym.evaluation.make_launches`.
        RegistrationError: the id is unknown.
    """
    if every < 1:
        raise ConfigError(f"every={every} turns between reminders must be at least 1")
    plain: EnvFactory = (lambda: make(env)) if isinstance(env, str) else env
    sides: dict[str, EnvFactory] = {
        f"{name}/without_reminder": plain,
        f"{name}/reminded_{every}": lambda: GoalReminder(plain(), every_turns=every),
    }
    with _kept_in(store) as kept:
        for side, factory in sides.items():
            evaluate(
                factory,
                agent_factory=agent_factory,
                task_ids=task_ids,
                samples_per_task=samples_per_task,
                concurrency=concurrency,
                seed=seed,
                episode_limit_s=episode_limit_s,
                store=kept,
                name=side,
                progress=progress,
            )
        without, reminded = (kept.eval_trajectories(side) for side in sides)
    return compare(without, reminded, every=every)


def compare(
    without: Sequence[Trajectory], reminded: Sequence[Trajectory], *, every: int
) -> ReminderAblation:
    """What reminding changed.

    Args:
        without: episodes of the agent as it is.
        reminded: episodes of the same tasks with reminders.
        every: turns between those.
    """
    return ReminderAblation(
        every=every,
        without=summarise(without),
        reminded=summarise(reminded),
        difference=success_difference(without, reminded),
        # What turn ``every`` answers has the reminder; who acts after it has read it.
        met=sum(len(t.turns) > every for t in reminded),
    )


@contextlib.contextmanager
def _kept_in(store: RunStore | None) -> Iterator[RunStore]:
    """The store, or one that is thrown away."""
    if store is not None:
        yield store
        return
    with tempfile.TemporaryDirectory() as folder, RunStore(folder) as scratch:
        yield scratch
