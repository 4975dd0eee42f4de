"""Schedules by name, for configurations and commands.

An option is a keyword argument of the schedule's class; one that a schedule does not read is refused, since
a silent option is a wrong experiment, and so is a value of another type than the class says.
``concurrency`` and ``replicas`` say what the machinery is, so they are given once, and reach the schedules
that ask: as ``max_concurrent``, and for the roofline batch of ``relay`` where nobody says what it is.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from agentic_gym.errors import ConfigError
from agentic_gym.suggest import nearest_or_all
from agentic_gym.trainers.schedules.base import Schedule
from agentic_gym.trainers.schedules.option_values import read_options, type_hints
from agentic_gym.trainers.schedules.plan_config import make_plan

_CLASSES = {
    "bounded_async": "bounded_async:BoundedAsync",
    "plan": "plan_config:make_plan",
    "relay": "relay:Relay",
    "streaming": "streaming:Streaming",
    "sync": "sync:Sync",
    "tail_batching": "tail_batching:TailBatching",
}

_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "bounded_async": {"max_staleness": 4},  # where AReaL's scores still hold: its table of eta
    "streaming": {"window": 3},
}
"""Options without which a schedule cannot be made, and what they are unless they are given."""

_GIVEN = ("batch_size", "group_size", "max_concurrent", "make", "stage")
"""Keyword arguments that are not options: they are given in other words."""

_METHODS = ("handle", "state_dict", "load_state_dict")
_CONTRACT = (
    "A schedule is a class whose constructor takes (batch_size, group_size) and its options by keyword, with "
    'the methods handle, state_dict and load_state_dict (docs/schedules.md, "A schedule of your own")'
)


def schedule_names() -> tuple[str, ...]:
    """Names that :func:`make_schedule` takes, sorted."""
    return tuple(sorted(_CLASSES))


def schedule_options(name: str) -> dict[str, Any]:
    """Options that a schedule reads, and their defaults.

    >>> sorted(schedule_options("sync"))
    ['max_lost_groups', 'max_retries']

    Raises:
        ConfigError: there is no schedule of that name.
    """
    parameters = inspect.signature(_find(name)).parameters.values()
    options = {
        p.name: p.default
        for p in parameters
        if p.name not in _GIVEN and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    }
    options |= _DEFAULTS.get(name, {})
    if "roofline_batch" in options:
        options["roofline_batch"] = None  # an equal share of the concurrency
    return options


def make_schedule(
    name: str,
    batch_size: int,
    group_size: int = 1,
    concurrency: int = 256,
    replicas: int = 1,
    stage: bool = False,
    **options: Any,
) -> Schedule:
    """Makes a schedule.

    Args:
        name: one of :func:`schedule_names`, or ``module:Class``.
        batch_size: trajectories of an update.
        group_size: trajectories of one task, launched together.
        concurrency: trajectories that run at once, on all replicas together. A schedule that launches
            batch by batch does not read it.
        replicas: of the engine.
        stage: say which groups are certain to be in the next batch before it is whole, for a trainer that
            begins with them (of a plan: while it uses a schedule that can).
        options: of the schedule: :func:`schedule_options`. Text is converted to the type asked for.

    Raises:
        ConfigError: the name or an option is unknown, a value is of another type or out of range, or it
            cannot stage.
    """
    if replicas < 1:
        raise ConfigError(f"replicas={replicas} must be positive")
    schedule = _find(name)
    asked = inspect.signature(schedule).parameters
    keywords = {**_DEFAULTS.get(name, {}), **_read(name, schedule, options)}
    if "max_concurrent" in asked:
        keywords["max_concurrent"] = concurrency
        if name == "streaming":  # more than a batch: a batch is finished while others go on
            more = batch_size + max(group_size, batch_size // 2)
            keywords["max_concurrent"] = max(concurrency, more)
    if "roofline_batch" in asked and keywords.get("roofline_batch") is None:
        keywords["roofline_batch"] = max(group_size, math.ceil(concurrency / replicas))
    if name == "plan":

        def make(chosen: str, **own: Any) -> Schedule:
            can = stage and "stage" in inspect.signature(_find(chosen)).parameters
            return make_schedule(
                chosen, batch_size, group_size, concurrency, replicas, stage=can, **own
            )

        return make_plan(make, **keywords)
    if stage:
        if "stage" not in asked:
            raise ConfigError(
                f"the schedule {name!r} hands a batch over as soon as it exists: there is nothing for a "
                "trainer to begin with before (ppo.stream). Use sync or tail_batching, or leave it out"
            )
        keywords["stage"] = True
    return _make(name, schedule, (batch_size, group_size), keywords)


def _read(name: str, schedule: Callable[..., Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The options, all known and of the types that the schedule says."""
    known = schedule_options(name)
    any_name = any(p.kind is p.VAR_KEYWORD for p in inspect.signature(schedule).parameters.values())
    for option in options:
        if option in _GIVEN or (option not in known and not any_name):
            raise ConfigError(
                f"the schedule {name!r} reads no {option!r}.{nearest_or_all(option, sorted(known))}"
            )
    try:
        return read_options(type_hints(schedule), options, known)
    except ConfigError as error:
        raise ConfigError(f"the schedule {name!r} cannot use {error}") from error


def _make(
    name: str, schedule: Callable[..., Any], sizes: tuple[int, int], keywords: Mapping[str, Any]
) -> Schedule:
    signature = inspect.signature(schedule)
    try:
        signature.bind(*sizes, **keywords)
    except TypeError as error:
        raise ConfigError(
            f"{name!r} cannot be made as a schedule: its constructor takes {_shown(signature)} "
            f"({error}). {_CONTRACT}"
        ) from error
    try:
        made: Schedule = schedule(*sizes, **keywords)
    except (TypeError, ValueError, AttributeError) as error:
        words = ", ".join(f"{key}={value!r}" for key, value in keywords.items())
        raise ConfigError(f"the schedule {name!r} cannot use {words}: {error}") from error
    _check_methods(name, made)
    return made


def _shown(signature: inspect.Signature) -> str:
    """Names and defaults, as they are written in a call."""
    plain = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return str(inspect.Signature(plain))


def _check_methods(name: str, schedule: object) -> None:
    missing = [method for method in _METHODS if not callable(getattr(schedule, method, None))]
    if missing:
        raise ConfigError(f"{name!r} is no schedule: it has no {', '.join(missing)}. {_CONTRACT}")


def _find(name: str) -> Callable[..., Any]:
    own = ":" in name
    if not own and name not in _CLASSES:
        raise ConfigError(
            f"there is no schedule {name!r}.{nearest_or_all(name, schedule_names())} "
            "One of your own: module:Class"
        )
    path = name if own else f"{__package__}.{_CLASSES[name]}"
    module, _, attribute = path.partition(":")
    try:
        found: Callable[..., Any] = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"the schedule {name!r} cannot be imported: {error}") from error
    if inspect.isclass(found):
        _check_methods(name, found)
    elif not callable(found):
        raise ConfigError(f"{name!r} is no schedule: it is {found!r}. {_CONTRACT}")
    return found
