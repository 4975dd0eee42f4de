"""Proves that a schedule keeps the contract: a model of a run in which everything that can happen does.

:func:`check_schedule` drives a schedule with episodes of random length that finish in any order, break, come
back late or twice, on replicas that die and return, through restarts that find the saved state out of date.
After every event the conservation law is checked, and what the schedule promises besides (:class:`Promises`).
Nothing here samples a token: a simulation of time on real hardware is another matter
(:mod:`agentic_gym.trainers.simulation`).
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agentic_gym.errors import ScheduleContractError
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
    calm_first: bool = True,
) -> CheckReport:
    """Drives a schedule through a modelled run.

    Restarts and deaths make a schedule begin anew, and so heal what it forgets to do. Therefore a run in
    which nothing goes wrong comes first, and a new schedule is given the state that it saved last.

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
        calm_first: begin with the calm run; False where another call has made it.

    Returns:
        What was seen in the run with that weather.

    Raises:
        ScheduleContractError: a breach; the message says which, and after which event.
    """

    def run(sky: Weather) -> ModelRun:
        rng = random.Random(seed)
        model = ModelRun(make, promises, sky, rng, slots, replicas, length, train_seconds)
        model.run(updates)
        return model

    if calm_first:
        try:
            model = run(CALM)
        except ScheduleContractError as error:
            raise ScheduleContractError(f"although nothing goes wrong: {error}") from error
        _check_state(make(), model.saved)
    if not calm_first or weather != CALM:
        model = run(weather)
    return CheckReport(model.batches, model.episodes, model.now)


def _check_state(schedule: Schedule, saved: str) -> None:
    """A saved state that is loaded is the state again."""
    schedule.load_state_dict(json.loads(saved))
    loaded = json.loads(json.dumps(schedule.state_dict()))
    if loaded != json.loads(saved):
        raise ScheduleContractError(
            f"load_state_dict loses state: {saved} was loaded, and state_dict says {json.dumps(loaded)}"
        )
