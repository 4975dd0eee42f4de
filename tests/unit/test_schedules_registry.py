from __future__ import annotations

from typing import Any

import pytest

from agentic_gym.errors import ConfigError
from agentic_gym.trainers.schedules.base import Begun, Launch
from agentic_gym.trainers.schedules.plan import Switching
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


def test_a_plan_is_read_from_plain_values() -> None:
    rules = [
        {"schedule": "bounded_async", "start": 22, "end": 6},
        {"schedule": "relay", "rate": 0.3},
        {"schedule": "tail_batching", "every": 10, "updates": 2},
        {"schedule": "sync", "batches": 2},
    ]
    options = {"bounded_async": {"max_staleness": 3}}
    plan = make_schedule("plan", **SIZES, rules=rules, schedules=options)
    assert isinstance(plan, Switching)
    plan.handle(Begun(replicas={0: 0, 1: 0}))
    assert plan.active == "sync"


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("tail_batchin", {}, "Did you mean 'tail_batching'"),
        ("zzz", {}, "There is: bounded_async, plan, relay"),
        ("no.such:Thing", {}, "cannot be imported"),
        (":Thing", {}, "cannot be imported"),
        ("bounded_async", {"max_stalenes": 3}, "Did you mean 'max_staleness'"),
        ("sync", {"zzz": 3}, "There is: max_lost_groups, max_retries"),
        ("bounded_async", {"max_staleness": "a"}, "cannot use max_staleness='a'"),
        ("plan", {"rules": [{"schedule": "relay"}]}, r"There are: hours: \{schedule, start"),
        ("plan", {"rules": [{"schedule": "relay", "rate": 3}]}, "rate=3.0 is a share"),
        ("plan", {"rules": 3}, "cannot be read"),
        ("plan", {"default": "plan"}, "cannot use a plan"),
        ("plan", {"default": "syncc"}, "Did you mean 'sync'"),
        ("plan", {"schedules": {"relay": {}}}, "no rule uses"),
        ("plan", {"min_updates": 0}, "at least 1"),
    ],
)
def test_wrong_names_and_options_are_refused(name: str, options: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make_schedule(name, **SIZES, **options)
