from __future__ import annotations

from typing import Any

import pytest

from agentic_gym.errors import ConfigError
from agentic_gym.trainers.schedules import registry
from agentic_gym.trainers.schedules.base import Begun, Launch
from agentic_gym.trainers.schedules.registry import make_schedule, schedule_names

SIZES: dict[str, Any] = {"batch_size": 8, "group_size": 2, "concurrency": 6, "replicas": 2}


@pytest.mark.parametrize("name", schedule_names())
def test_every_schedule_starts_with_what_fits_the_run(name: str) -> None:
    schedule = make_schedule(name, **SIZES)
    actions = schedule.handle(Begun(replicas={0: 0, 1: 0}))
    launches = [action for action in actions if isinstance(action, Launch)]
    assert launches
    assert all(launch.size == 2 for launch in launches)


def test_a_schedule_can_be_named_by_its_import_path() -> None:
    name = "agentic_gym.trainers.schedules.sync:Sync"
    assert type(make_schedule(name, **SIZES)) is type(make_schedule("sync", **SIZES))


def test_a_schedule_of_ones_own_gets_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_SCHEDULES", dict(registry._SCHEDULES))
    made: list[Any] = []

    def mine(batch_size: int, group_size: int, *, max_concurrent: int, hurry: bool = False) -> Any:
        made.append((batch_size, group_size, max_concurrent, hurry))

    registry.register_schedule("mine", mine)
    make_schedule("mine", **SIZES, hurry=True)
    assert made == [(8, 2, 6, True)]
    with pytest.raises(ConfigError, match="another name"):
        registry.register_schedule("mine", mine)


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("tail_batchin", {}, "Did you mean 'tail_batching'"),
        ("zzz", {}, "There is: sync, tail_batching"),
        ("no.such:Thing", {}, "cannot be imported"),
        ("bounded_async", {"max_stalenes": 3}, "Did you mean 'max_staleness'"),
        ("sync", {"zzz": 3}, "It has: max_retries, max_lost_groups"),
        ("bounded_async", {"max_staleness": "a"}, "cannot be made of"),
    ],
)
def test_wrong_names_and_options_are_refused(name: str, options: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make_schedule(name, **SIZES, **options)
