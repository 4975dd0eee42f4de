"""Selectors by name, for configurations.

An option is a keyword argument of the selector's class, of a class that it hands its options on to, or of
:class:`~.diversity.Diversity` where the name ends in ``+diversity``. One that nothing reads is refused,
since a silent option is a wrong experiment.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from agentic_gym.errors import ConfigError
from agentic_gym.suggest import nearest_or_all
from agentic_gym.trainers.selection.base import TaskFacts, TaskSelector, UniformTasks
from agentic_gym.trainers.selection.diversity import Diversity

DIVERSITY = "+diversity"
"""End of the name of a selector that keeps classes and repositories in balance."""

_CLASSES = {"band": "band:BandTasks", "curriculum": "curriculum:CurriculumTasks"}
_EVEN = f"{__package__}.weighted:WeightedTasks"
_GIVEN = {"self", "tasks", "seed", "diversity"}
_HANDED_ON = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)


def selector_names() -> tuple[str, ...]:
    """Names that :func:`make_selector` takes, sorted."""
    names = ["uniform", *_CLASSES]
    return tuple(sorted([*names, *(name + DIVERSITY for name in names)]))


def selection_options(name: str) -> dict[str, Any]:
    """Options that a selector reads, and their defaults.

    >>> selection_options("uniform")
    {}
    >>> selection_options("band+diversity")["class_power"]
    0.5

    Raises:
        ConfigError: there is no selector of that name.
    """
    if name == "uniform":
        return {}
    selector, diverse = _find(name)
    return _options(selector) | (_options(Diversity) if diverse else {})


def make_selector(
    name: str, tasks: Sequence[TaskFacts], seed: int = 0, **options: Any
) -> TaskSelector:
    """Makes a selector.

    Args:
        name: one of :func:`selector_names`, or ``module:Class`` for one of your own, which is called with the
            tasks, ``seed=`` and its options; with ``+diversity`` behind it also with ``diversity=``.
        tasks: of the run, distinct.
        seed: of the draws.
        **options: :func:`selection_options`.

    Raises:
        ConfigError: the name or an option is unknown, a value is out of range, or tasks are not distinct.
    """
    known = selection_options(name)
    for option in options:
        if option not in known:
            hint = nearest_or_all(option, sorted(known)) if known else " It has no options."
            raise ConfigError(
                f"the selector {name!r} reads no {option!r}.{hint}{_elsewhere(option)}"
            )
    if name == "uniform":
        return UniformTasks([task.task_id for task in tasks], seed=seed)
    selector, diverse = _find(name)
    of_diversity = _options(Diversity) if diverse else {}
    own = {key: value for key, value in options.items() if key not in of_diversity}
    try:
        if diverse:
            balance = {key: value for key, value in options.items() if key in of_diversity}
            own["diversity"] = Diversity(tasks, **balance)
        made: TaskSelector = selector(tasks, seed=seed, **own)
    except (TypeError, AttributeError) as error:
        words = ", ".join(f"{key}={value!r}" for key, value in options.items())
        raise ConfigError(f"the selector {name!r} cannot use {words}: {error}") from error
    return made


def _elsewhere(option: str) -> str:
    """Which other selectors read an option."""
    readers = [repr(name) for name in selector_names() if option in selection_options(name)]
    return f" It is read by {', '.join(readers)}." if readers else ""


def _options(selector: Callable[..., Any]) -> dict[str, Any]:
    """Keyword arguments; of a class that hands the rest on (``**options``), also those of its bases."""
    classes = selector.__mro__ if isinstance(selector, type) else (selector,)
    found: dict[str, Any] = {}
    for one in classes:
        if isinstance(one, type) and "__init__" not in vars(one):
            continue
        parameters = inspect.signature(
            vars(one)["__init__"] if isinstance(one, type) else one
        ).parameters
        for parameter in parameters.values():
            if parameter.name not in _GIVEN and parameter.kind not in _HANDED_ON:
                found.setdefault(parameter.name, parameter.default)
        if all(p.kind is not inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
            break
    return found


def _find(name: str) -> tuple[Callable[..., Any], bool]:
    """A selector's class, and whether it is given a :class:`Diversity`."""
    bare, diverse = name.removesuffix(DIVERSITY), name.endswith(DIVERSITY)
    own = ":" in bare
    if not own and name not in selector_names():
        raise ConfigError(
            f"there is no selector {name!r}.{nearest_or_all(name, selector_names())} "
            "One of your own: module:Class"
        )
    path = bare if own else f"{__package__}.{_CLASSES[bare]}" if bare in _CLASSES else _EVEN
    module, _, attribute = path.partition(":")
    try:
        found: Callable[..., Any] = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"the selector {name!r} cannot be imported: {error}") from error
    return found, diverse
