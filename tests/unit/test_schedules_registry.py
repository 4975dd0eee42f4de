from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import pytest

from agentic_gym.errors import ConfigError
from agentic_gym.trainers.schedules.base import Action, Begun, Event, Launch
from agentic_gym.trainers.schedules.plan import Switching
from agentic_gym.trainers.schedules.registry import make_schedule, schedule_names

RULE = {"schedule": "relay", "rate": 0.3}
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
        ("plan", {"rules": "sync"}, "rules='sync' cannot be read: it must be a list"),
        ("plan", {"rules": [RULE, 3]}, "rule 2 of the plan cannot be read: 3"),
        ("plan", {"rules": [RULE, RULE | {"when": 3}]}, "rule 2 of the plan.* no key 'when'"),
        ("plan", {"rules": [{"schedule": "relay", "rat": 0.3}]}, "Did you mean 'rate'"),
        ("plan", {"rules": [{"rate": 0.3}]}, "rule 1 .*'schedule' is missing"),
        ("plan", {"rules": [{"schedule": "relay", "start": 3}]}, "rule 1 .*'end' is missing"),
        ("plan", {"rules": [RULE | {"batches": 3}]}, "rule 1 .* mixes several kinds"),
        ("plan", {"rules": [{"schedule": "relay"}]}, "rule 1 .* does not say when it holds"),
        ("plan", {"rules": [{"schedule": "relay", "updates": 3}]}, "give one of them, every"),
        ("plan", {"rules": [RULE | {"rate": "half"}]}, "rule 1 .*rate='half': it must be a number"),
        ("plan", {"rules": [{"schedule": "relay", "at": 3}]}, "a list, each a whole number"),
        ("plan", {"schedules": 3}, "schedules=3 must give options by schedule"),
        ("plan", {"schedules": {"sync": 3}}, "must give options by schedule"),
        ("plan", {"schedules": {"sync": {"max_retries": 1.5}}}, "max_retries=1.5: .* whole number"),
        ("plan", {"default": "plan"}, "cannot use a plan"),
        ("plan", {"default": "syncc"}, "Did you mean 'sync'"),
        ("plan", {"schedules": {"relay": {}}}, "no rule uses"),
        ("plan", {"min_updates": 0}, "at least 1"),
    ],
)
def test_wrong_names_and_options_are_refused(name: str, options: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        make_schedule(name, **SIZES, **options)


# ---- types ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "option", "value", "expected"),
    [
        ("bounded_async", "max_staleness", 1.5, "a whole number"),
        ("bounded_async", "max_staleness", True, "a whole number"),
        ("bounded_async", "max_staleness", "two", "a whole number"),
        ("bounded_async", "max_staleness", None, "a whole number"),
        ("bounded_async", "on_publish", "never", "'interrupt' or 'keep_kv' or 'wait'"),
        ("streaming", "elastic", "maybe", "true or false"),
        ("streaming", "elastic", 1, "true or false"),
        ("relay", "repack_seconds", True, "a number"),
        ("relay", "repack_seconds", "nan", "a number"),
        ("relay", "repack_seconds", [3], "a number"),
        ("relay", "max_staleness", "few", "a whole number or none"),
        ("tail_batching", "prompt_redundancy", True, "a number or text"),
        ("tail_batching", "carry", 3, "'resume' or 'restart'"),
        ("plan", "default", 3, "text"),
        (f"{__name__}:Mine", "mode", "slow", "'fast' or 2"),
        (f"{__name__}:Mine", "mode", "2", "'fast' or 2"),
        (f"{__name__}:Mine", "mode", 2.0, "'fast' or 2"),
    ],
)
def test_a_value_of_another_type_is_refused(
    name: str, option: str, value: Any, expected: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        make_schedule(name, **SIZES, **{option: value})
    said = f"the schedule {name!r} cannot use {option}={value!r}: it must be {expected}"
    assert str(refused.value) == said


class Mine:
    """A schedule of one's own, that remembers its options."""

    def __init__(
        self,
        batch_size: int,
        group_size: int = 1,
        *,
        count: int = 0,
        seconds: float = 1.0,
        on: bool = False,
        mode: Literal["fast", 2] = "fast",
        bound: int | None = 3,
        word: str | None = None,
        either: int | str = 0,
        free: Any = None,
        **more: Any,
    ) -> None:
        self.made = {"count": count, "seconds": seconds, "on": on, "mode": mode, **more}
        self.made |= {"bound": bound, "word": word, "either": either, "free": free}

    def handle(self, event: Event) -> list[Action]:
        return []

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        pass


@pytest.mark.parametrize(
    ("option", "value", "made"),
    [
        ("count", "-4", -4),
        ("seconds", "inf", math.inf),
        ("seconds", 3, 3.0),
        ("on", "True", True),
        ("mode", 2, 2),
        ("bound", "none", None),
        ("bound", "7", 7),
        ("word", "none", "none"),
        ("word", None, None),
        ("either", "7", "7"),
        ("free", "3", "3"),
        ("other", "3", "3"),
    ],
)
def test_words_become_what_is_asked_for(option: str, value: Any, made: Any) -> None:
    schedule = make_schedule(f"{__name__}:Mine", **SIZES, **{option: value})
    assert isinstance(schedule, Mine)
    assert (schedule.made[option], type(schedule.made[option])) == (made, type(made))


@pytest.mark.parametrize("option", ["roofline_batch", "max_staleness", "buffer_size"])
def test_what_is_none_by_default_may_be_given_as_none(option: str) -> None:
    for none in (None, "none"):
        options: dict[str, Any] = {option: none}
        make_schedule("relay", **SIZES, **options)


# ---- what is no schedule -------------------------------------------------------------------------


class NotOne:
    pass


class Deaf(Mine):
    handle = None  # type: ignore[assignment]


class Narrow(Mine):
    def __init__(self) -> None:
        super().__init__(1)


class Demanding(Mine):
    def __init__(self, batch_size: int, group_size: int, *, bound: int) -> None:
        if bound > 1:
            raise ValueError("bound is too high")


def make_nothing(batch_size: int, group_size: int) -> int:
    return batch_size


@pytest.mark.parametrize(
    ("attribute", "options", "said"),
    [
        (
            "NotOne",
            {},
            "is no schedule: it has no handle, state_dict, load_state_dict. A schedule is",
        ),
        ("Deaf", {}, "is no schedule: it has no handle. A schedule is"),
        ("make_nothing", {}, "is no schedule: it has no handle, state_dict, load_state_dict"),
        ("SIZES", {}, "is no schedule: it is {'batch_size': 8"),
        ("Narrow", {}, r"its constructor takes () (too many positional arguments). A schedule is"),
        ("Demanding", {}, r"takes (batch_size, group_size, *, bound) (missing a required argument"),
        ("Demanding", {"bound": 2}, "cannot use bound=2: bound is too high"),
        ("Demanding", {"bound": "x"}, "cannot use bound='x': it must be a whole number"),
    ],
)
def test_what_is_no_schedule_is_told_what_one_must_have(
    attribute: str, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        make_schedule(f"{__name__}:{attribute}", **SIZES, **options)
    assert said in str(refused.value)
    if "A schedule is" in said:
        assert "(batch_size, group_size) and its options by keyword" in str(refused.value)
