"""Proves that a schedule keeps the contract: a model of a run in which everything that can happen does.

:func:`check_schedule` drives a schedule with episodes of random length that finish in any order, break, come
back late or twice, on replicas that die and return, through restarts that find the saved state out of date.
After every event the conservation law is checked, and what the schedule promises besides (:class:`Promises`).
Nothing here samples a token: a simulation of time on real hardware is another matter
(:mod:`agentic_gym.trainers.simulation`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agentic_gym.trainers.schedules.base import Schedule
from agentic_gym.trainers.schedules.model_episode import Episode
from agentic_gym.trainers.schedules.model_run import ModelRun
from agentic_gym.trainers.schedules.promises import Promises, Weather

__all__ = ["CheckReport", "Episode", "Promises", "Weather", "check_schedule"]


CALM = Weather()
"""Nothing goes wrong."""


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What was seen.

    Attributes:
        batches: names, in order.
        episodes: every trajectory ever launched, by name.
        seconds: of the modelled run.
    """

    batches: Sequence[Sequence[str]]
    episodes: dict[str, Episode]
    seconds: float

    @property
    def trained(self) -> list[Episode]:
        """Episodes that were trained, in order."""
        return [self.episodes[name] for batch in self.batches for name in batch]

    @property
    def reasons(self) -> dict[str, str]:
        """Why each dropped trajectory was dropped."""
        return {e.name: e.reason for e in self.episodes.values() if e.state == "dropped"}


def check_schedule(
    make: Callable[[], Schedule],
    promises: Promises,
    *,
    weather: Weather = CALM,
    seed: int = 0,
    updates: int = 20,
    slots: int = 16,
    replicas: int = 1,
    length: Callable[[random.Random], float] = lambda rng: rng.lognormvariate(0.0, 1.0),
    train_seconds: float = 1.0,
) -> CheckReport:
    """Drives a schedule through a modelled run.

    Args:
        make: a new schedule, as at the start of the process.
        promises: to hold it to.
        weather: what goes wrong.
        seed: of everything random.
        updates: after so many the run ends.
        slots: episodes at once; more wait.
        replicas: of the engine.
        length: of an episode, in seconds.
        train_seconds: about so long an update takes.

    Returns:
        What was seen.

    Raises:
        ScheduleContractError: a breach; the message says which, and after which event.
    """
    model = ModelRun(
        make, promises, weather, random.Random(seed), slots, replicas, length, train_seconds
    )
    model.run(updates)
    return CheckReport(model.batches, model.episodes, model.now)
