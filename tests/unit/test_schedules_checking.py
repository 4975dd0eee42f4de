"""What the modelled run does to a schedule."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import pytest

from agentic_gym.errors import ScheduleContractError
from agentic_gym.trainers.schedules import base
from agentic_gym.trainers.schedules.checking import Promises, Weather, check_schedule
from agentic_gym.trainers.schedules.model_episode import Episode
from agentic_gym.trainers.schedules.sync import Sync


class Recorded(Sync):
    """Keeps what it is told."""

    def __init__(self, max_retries: int = 2) -> None:
        super().__init__(2, max_retries=max_retries, max_lost_groups=10**6)
        self.told: list[base.Event] = []

    def handle(self, event: base.Event) -> list[base.Action]:
        self.told.append(event)
        return super().handle(event)


def test_a_failure_comes_again_also_when_its_group_is_gone() -> None:
    schedule = Recorded(max_retries=0)
    check_schedule(lambda: schedule, Promises(2), weather=Weather(failure=0.3, echo=1.0))
    times = Counter(e.trajectory_id for e in schedule.told if isinstance(e, base.Failed))
    assert max(times.values()) == 2


def test_replicas_come_back_with_old_weights_that_nothing_is_sampled_by() -> None:
    schedule = Recorded()
    fresh = Promises(2, max_staleness=0, single_version=True)
    rough = Weather(failure=0.3, death=0.2)
    check_schedule(lambda: schedule, fresh, weather=rough, replicas=2, slots=1, updates=40)
    newest, behind = 0, 0
    for event in schedule.told:
        newest = max(newest, event.version if isinstance(event, base.Trained) else 0)
        behind += isinstance(event, base.ReplicaUp) and event.version < newest
    assert behind > 5


def test_an_episode_is_as_old_as_the_oldest_weights_in_it() -> None:
    assert Episode("g000000.00", 1.0, 3, 1.0).version == 3
    assert Episode("g000000.00", 1.0, 3, 1.0, versions=[3, 1, 2]).version == 1


class DropsLast(Sync):
    """Forgets the last thing that it should do, now and then."""

    def handle(self, event: base.Event) -> list[base.Action]:
        actions = super().handle(event)
        return actions[:-1] if isinstance(event, base.Trained) else actions


class Forgetful(Sync):
    """Loads nothing."""

    def __init__(self) -> None:
        super().__init__(8, 2, max_lost_groups=100)
        self.told = 0

    def handle(self, event: base.Event) -> list[base.Action]:
        self.told += 1
        return super().handle(event)

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "told": self.told}


ROUGH = Weather(failure=0.1, death=0.05, restart=0.05, echo=0.2, refusal=0.2)


def test_what_restarts_heal_is_found_in_calm_weather() -> None:
    check = partial(
        check_schedule,
        lambda: DropsLast(8, 2, max_lost_groups=100),
        Promises(8, 2, max_staleness=None),
        weather=ROUGH,
        replicas=3,
    )
    with pytest.raises(ScheduleContractError, match="although nothing goes wrong: the schedule is"):
        check()
    assert len(check(calm_first=False).batches) == 20


@pytest.mark.parametrize("weather", [Weather(), ROUGH])
def test_a_state_that_is_not_loaded_is_found(weather: Weather) -> None:
    with pytest.raises(ScheduleContractError, match=r'loses state: .*"told": \d\d'):
        check_schedule(Forgetful, Promises(8, 2), weather=weather, replicas=3)
    check_schedule(Forgetful, Promises(8, 2), weather=weather, replicas=3, calm_first=False)
