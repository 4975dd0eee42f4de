"""A plan of schedules from plain values, as a YAML file holds them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentic_gym.errors import ConfigError
from agentic_gym.suggest import did_you_mean
from agentic_gym.trainers.schedules.base import Schedule
from agentic_gym.trainers.schedules.option_values import read_options, type_hints
from agentic_gym.trainers.schedules.plan import Switching
from agentic_gym.trainers.schedules.plan_rules import (
    HourWindow,
    LongTail,
    QueuePressure,
    Rule,
    WeightRelease,
)

_KINDS: tuple[type[Rule], ...] = (HourWindow, QueuePressure, LongTail, WeightRelease)
_SCHEDULE = "schedule"
_KEYS = {
    kind: tuple(f.name for f in dataclasses.fields(kind) if f.name != _SCHEDULE)  # type: ignore[arg-type]
    for kind in _KINDS
}
"""Keys that say when a rule of each kind holds."""

_GRAMMAR = (
    "There are: hours: {schedule, start, end}; what waits for the trainer: {schedule, batches}; long "
    "episodes: {schedule, rate}; a release of weights: {schedule, every, updates} or "
    '{schedule, at: [versions], updates} (docs/schedules.md, "Rules of a plan")'
)


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
    if isinstance(rules, str | Mapping) or not isinstance(rules, Sequence):
        raise ConfigError(f"rules={rules!r} cannot be read: it must be a list. {_GRAMMAR}")
    read = [_rule(number, rule) for number, rule in enumerate(rules, start=1)]
    options = {} if schedules is None else schedules
    if not isinstance(options, Mapping) or not all(
        isinstance(own, Mapping) for own in options.values()
    ):
        raise ConfigError(
            f"schedules={schedules!r} must give options by schedule: {{relay: {{max_staleness: 4}}}}"
        )
    names = dict.fromkeys([default, *(rule.schedule for rule in read)])
    for name in options:
        if name not in names:
            raise ConfigError(f"schedules gives options to {name!r}, which no rule uses")
    for name in names:
        if name == "plan":
            raise ConfigError("a plan cannot use a plan: name the schedules themselves")
    factories = {name: functools.partial(make, name, **options.get(name, {})) for name in names}
    return Switching(factories, default, read, min_updates=min_updates)


def _rule(number: int, said: Any) -> Rule:
    """One rule; a complaint says which, counted from 1."""
    if not isinstance(said, Mapping):
        raise ConfigError(f"rule {number} of the plan cannot be read: {said!r}. {_GRAMMAR}")
    where = f"rule {number} of the plan, {dict(said)!r}"
    keys = [key for key in said if key != _SCHEDULE]
    known = [key for kind in _KINDS for key in _KEYS[kind]]
    for key in keys:
        if key not in known:
            near = did_you_mean(str(key), [_SCHEDULE, *known])
            raise ConfigError(f"{where}: there is no key {key!r}.{near} {_GRAMMAR}")
    fitting = [kind for kind in _KINDS if keys and set(keys) <= set(_KEYS[kind])]
    if not fitting:
        problem = "it mixes several kinds of rules" if keys else "it does not say when it holds"
        raise ConfigError(f"{where}: {problem}. {_GRAMMAR}")
    kind = fitting[0]
    missing = [
        field.name
        for field in dataclasses.fields(kind)  # type: ignore[arg-type]  # each is a dataclass
        if field.name not in said and field.default is dataclasses.MISSING
    ]
    if missing:
        raise ConfigError(f"{where}: {missing[0]!r} is missing. {_GRAMMAR}")
    try:
        return kind(**read_options(type_hints(kind), said, {}))
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error
