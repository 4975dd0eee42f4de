"""What the modelled run does to a schedule."""

from __future__ import annotations

from collections import Counter

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
