"""A plan of schedules from plain values, as a YAML file holds them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pydantic

from agentic_gym.errors import ConfigError
from agentic_gym.trainers.schedules.base import Schedule
from agentic_gym.trainers.schedules.plan import (
    HourWindow,
    LongTail,
    QueuePressure,
    Switching,
    WeightRelease,
)

AnyRule = HourWindow | QueuePressure | LongTail | WeightRelease
_RULES = pydantic.TypeAdapter(list[AnyRule])
_KEYS = {
    "hours": "{schedule, start, end}",
    "what waits for the trainer": "{schedule, batches}",
    "long episodes": "{schedule, rate}",
    "a release of weights": "{schedule, every, updates} or {schedule, at: [versions], updates}",
}


def make_plan(
    make: Callable[..., Schedule],
    *,
    default: str = "sync",
    rules: Sequence[Mapping[str, Any]] = (),
    schedules: Mapping[str, Mapping[str, Any]] | None = None,
    min_updates: int = 8,
) -> Switching:
    """A :class:`~agentic_gym.trainers.schedules.plan.Switching`.

    Args:
        make: makes a schedule of the run from its name and options.
        default: name of the schedule that is used while no rule holds.
        rules: the first that holds wins; each names its ``schedule`` and says when.
        schedules: options by name, for those that need any.
        min_updates: between two switches.

    Raises:
        ConfigError: a rule cannot be read, or names no schedule.
    """
    try:
        read = _RULES.validate_python([dict(rule) for rule in rules])
    except (pydantic.ValidationError, TypeError, ValueError) as error:
        kinds = "; ".join(f"{what}: {keys}" for what, keys in _KEYS.items())
        found = error.errors() if isinstance(error, pydantic.ValidationError) else []
        said = "".join(f" {e['msg']}." for e in found if e["type"] == "value_error")
        raise ConfigError(f"rules={rules!r} cannot be read.{said} There are: {kinds}") from error
    options = dict(schedules or {})
    names = dict.fromkeys([default, *(rule.schedule for rule in read)])
    for name in options:
        if name not in names:
            raise ConfigError(f"schedules gives options to {name!r}, which no rule uses")
    for name in names:
        if name == "plan":
            raise ConfigError("a plan cannot use a plan: name the schedules themselves")
    factories = {name: functools.partial(make, name, **options.get(name, {})) for name in names}
    return Switching(factories, default, read, min_updates=min_updates)
