"""Ids for environments, on gymnasium's own registry.

``register`` and ``make`` are gymnasium's, with budgets (``max_turns`` …) as options, ids that must be
``namespace/name-vN``, and errors that say what was probably meant. What is registered here can be made
with :func:`gymnasium.make` and :func:`gymnasium.make_vec`, and the other way round.

An installed package brings its environments through the entry point group ``agentic_gym.envs``. Named
by an id, they are known at once and imported when they are made; under another name, the module is
imported (a function called) when an unknown id is asked for, and registers what it likes: ::

    [project.entry-points."agentic_gym.envs"]
    "me/thing-v0" = "me_envs.thing:Thing"     # the class, or a function that makes one
    "me/other-v0" = "me_envs.other"           # a module whose import registers that id
    me = "me_envs"

Importing this module makes the ids known to gymnasium, and imports none of the plugins.
"""

from __future__ import annotations

import copy
import importlib
import importlib.metadata
import inspect
import re
import threading
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec, WrapperSpec, load_env_creator

from agentic_gym.errors import RegistrationError
from agentic_gym.suggest import did_you_mean

GROUP = "agentic_gym.envs"
_WRAPPERS = "agentic_gym.wrappers:"
_ID = re.compile(r"[\w.-]+/[\w.-]+-v\d+")
# What somebody means as a version: -v1, _v1.2, -vzero. Not the end of "my-video".
_VERSION = re.compile(r"(?:^|[-_])v(\d*)(?:\.[\d.]*|zero|one|two|n|x)?$", re.IGNORECASE)

EntryPoint = str | Callable[..., gymnasium.Env[Any, Any]]

# Option of register and make -> (wrapper, its argument), from the innermost to the outermost wrapper:
# budgets outside of the reminder, so that they count it.
_OPTIONS = {
    "goal_reminder_turns": ("GoalReminder", "every_turns"),
    "goal_reminder_tokens": ("GoalReminder", "every_tokens"),
    "max_turns": ("TurnLimit", "max_turns"),
    "max_tokens": ("TokenBudget", "max_tokens"),
    "max_seconds": ("TimeLimit", "seconds"),
}
_COUNTING = {"goal_reminder_tokens", "max_tokens"}

# Held while an id is replaced, which takes two steps: environments are made in many threads at once.
# Never held while anything is imported: imports have locks of their own.
_lock = threading.Lock()
_known: set[str] = set()
_pending: list[importlib.metadata.EntryPoint] = []


def register(
    id: str, entry_point: EntryPoint, *, nondeterministic: bool = False, **kwargs: Any
) -> None:
    """Gives an environment an id.

    Registering the same entry point again (a notebook cell that runs twice) replaces it.

    Args:
        id: ``namespace/name-vN``, for instance ``me/thing-v0``.
        entry_point: the class or a function that makes one, or ``"module:name"``, imported when needed.
        nondeterministic: the same seed and actions may lead to different episodes.
        **kwargs: defaults for :func:`make`: budgets, and arguments of the environment.

    Raises:
        RegistrationError: the id is malformed, or taken by another environment; the entry point cannot
            make environments, or does not take one of the arguments.
    """
    if not isinstance(id, str) or not _ID.fullmatch(id):
        raise RegistrationError(
            f"{id!r} is not an id: expected namespace/name-vN, for instance {_suggest(id)!r}"
        )
    _check_entry_point(id, entry_point)
    wrappers = _wrapper_specs(
        {key: kwargs.pop(key) for key in list(kwargs) if key in _option_names()}
    )
    if not isinstance(
        entry_point, str
    ):  # what a text names is imported, and checked, when it is made
        _check_arguments(id, _parameters(entry_point), kwargs)
    with _lock:
        taken = gymnasium.registry.get(id)
        declared = taken is not None and isinstance(taken.entry_point, _Declared)
        if taken is not None and not declared and _name(taken.entry_point) != _name(entry_point):
            raise RegistrationError(
                f"{id} is taken by {_name(taken.entry_point)}. "
                "Choose another name or the next version"
            )
        gymnasium.registry.pop(id, None)
        try:
            gymnasium.register(
                id,
                entry_point,
                nondeterministic=nondeterministic,
                order_enforce=False,  # ToolEnv enforces the order, with its own error
                additional_wrappers=wrappers,
                kwargs=kwargs,
            )
        except gymnasium.error.RegistrationError as error:
            if taken is not None:
                gymnasium.registry[id] = taken
            raise RegistrationError(str(error)) from error
        _known.add(id)


def make(id: str, **kwargs: Any) -> gymnasium.Env[Any, Any]:
    """Makes an environment.

    Args:
        id: as registered; ``"module:namespace/name-vN"`` imports the module first.
        **kwargs: budgets, and arguments of the environment: ``max_turns``, ``max_tokens`` (with
            ``count_tokens``, a function from text to a number), ``max_seconds``,
            ``goal_reminder_turns``, ``goal_reminder_tokens``; None switches a registered one off.

    Raises:
        RegistrationError: the id is unknown or its code cannot be imported, or an argument is unknown
            or missing.
    """
    spec = copy.deepcopy(find_spec(id))
    options = {key: kwargs.pop(key) for key in list(kwargs) if key in _option_names()}
    ours = [wrapper for wrapper in spec.additional_wrappers if _is_ours(wrapper)]
    others = [wrapper for wrapper in spec.additional_wrappers if not _is_ours(wrapper)]
    spec.additional_wrappers = (*others, *_wrapper_specs(_read_options(ours) | options))
    given = spec.kwargs | kwargs
    parameters = _parameters(_creator(spec))
    _check_arguments(spec.id, parameters, given)
    for name, parameter in parameters.items():
        if parameter.default is parameter.empty and name not in given and _is_named(parameter):
            raise RegistrationError(f"{spec.id} needs {name}: make({spec.id!r}, {name}=...)")
    return gymnasium.make(spec, **kwargs)


def find_spec(id: str) -> EnvSpec:
    """The registered description of an environment. Raises as :func:`make`."""
    if not isinstance(id, str):
        raise RegistrationError(f"{id!r} is not an id: expected namespace/name-vN")
    module, _, name = id.rpartition(":")
    if module:
        try:
            importlib.import_module(module)
        except ImportError as error:
            lost = isinstance(error, ModuleNotFoundError) and error.name == module.partition(".")[0]
            hint = ". If it is a file of yours, put its folder on PYTHONPATH" if lost else ""
            raise RegistrationError(f"{id}: cannot import {module!r}: {error}{hint}") from error
    spec = _registered(name)
    if spec is None:
        load_plugins()
        spec = _registered(name)
    if spec is None:
        hint = did_you_mean(name, gymnasium.registry)
        hint = hint or f" Known: {', '.join(sorted(_known)) or '-'}."
        raise RegistrationError(
            f"There is no environment {name!r}.{hint} If another package registers it, "
            f"import that package first, or write 'package:{name}'"
        )
    return spec.entry_point.load() if isinstance(spec.entry_point, _Declared) else spec


def _registered(id: str) -> EnvSpec | None:
    with _lock:
        return gymnasium.registry.get(id)


def registered() -> dict[str, EnvSpec]:
    """Every environment registered through this module or by a plugin, sorted by id."""
    load_plugins()
    return {id: gymnasium.registry[id] for id in sorted(_known) if id in gymnasium.registry}


def describe(spec: EnvSpec) -> dict[str, Any]:
    """An environment in words: its entry point, and the options that it was registered with."""
    options = _read_options(w for w in spec.additional_wrappers if _is_ours(w))
    shown = {key: _name(value) if callable(value) else value for key, value in options.items()}
    return {"entry_point": _name(spec.entry_point), "options": shown}


def load_plugins() -> None:
    """Imports the plugins that are modules or callables. A broken one is a warning that names it."""
    while _pending:
        entry_point = _pending.pop(0)
        try:
            loaded = entry_point.load()
            if callable(loaded):
                loaded()
        except Exception as error:
            _warn(entry_point, error)


class _Declared:
    """Stands in gymnasium's registry for an id that a plugin's module registers once it is imported."""

    def __init__(self, id: str, module: str) -> None:
        self._id, self._module = id, module

    def load(self) -> EnvSpec:
        try:
            importlib.import_module(self._module)
        except ImportError as error:
            raise RegistrationError(
                f"{self._id}: cannot import {self._module!r}: {error}"
            ) from error
        spec = _registered(self._id)
        if spec is None or isinstance(spec.entry_point, _Declared):
            raise RegistrationError(
                f"{self._id}: the module {self._module!r} does not register it. "
                f"Call agentic_gym.register({self._id!r}, ...) there"
            )
        return spec

    def __call__(self, **kwargs: Any) -> gymnasium.Env[Any, Any]:
        return gymnasium.make(self.load(), **kwargs)

    def __repr__(self) -> str:
        return self._module


def _declare_plugins(entry_points: Iterable[importlib.metadata.EntryPoint]) -> None:
    """Registers the plugins that are named by an id; keeps the others for :func:`load_plugins`."""
    for entry_point in entry_points:
        if "/" not in entry_point.name:
            _pending.append(entry_point)
        elif entry_point.name not in _known:
            value = (
                entry_point.value
                if entry_point.attr
                else _Declared(entry_point.name, entry_point.module)
            )
            try:
                register(entry_point.name, value)
            except RegistrationError as error:
                _warn(entry_point, error)


def _warn(entry_point: importlib.metadata.EntryPoint, error: Exception) -> None:
    owner = entry_point.dist.name if entry_point.dist else "an unknown distribution"
    warnings.warn(
        f"The environments of {owner} are not available: entry point {entry_point.name!r} "
        f"({entry_point.value}) failed with {type(error).__name__}: {error}",
        RuntimeWarning,
        stacklevel=3,
    )


def _wrapper_specs(options: dict[str, Any]) -> tuple[WrapperSpec, ...]:
    count = options.get("count_tokens")
    arguments: dict[str, dict[str, Any]] = {}
    for option, (wrapper, argument) in _OPTIONS.items():
        if options.get(option) is None:
            continue
        arguments.setdefault(wrapper, {})[argument] = options[option]
        if option in _COUNTING:
            if count is None:
                raise RegistrationError(
                    f"{option} needs count_tokens: a function from text to a number of tokens, "
                    "for instance lambda text: len(tokenizer.encode(text))"
                )
            arguments[wrapper]["count"] = count
    return tuple(
        WrapperSpec(name=name, entry_point=f"{_WRAPPERS}{name}", kwargs=kwargs)
        for name, kwargs in arguments.items()
    )


def _read_options(specs: Iterable[WrapperSpec]) -> dict[str, Any]:
    """The inverse of :func:`_wrapper_specs`."""
    found = {spec.name: spec.kwargs or {} for spec in specs}
    options = {
        option: found[wrapper][argument]
        for option, (wrapper, argument) in _OPTIONS.items()
        if argument in found.get(wrapper, ())
    }
    counts = [kwargs["count"] for kwargs in found.values() if "count" in kwargs]
    return options | ({"count_tokens": counts[0]} if counts else {})


def _suggest(id: Any) -> str:
    """The id that somebody probably meant who gave a malformed one."""
    first, slash, rest = str(id if isinstance(id, str) else "").partition("/")
    space, name = (
        re.sub(r"[^\w.-]+", "-", part).strip("-")
        for part in ((first, rest) if slash else ("", first))
    )
    version = _VERSION.search(name)
    bare = name[: version.start()] if version else name
    return f"{space or 'me'}/{bare or 'thing'}-v{(version and version.group(1)) or 0}"


def _check_entry_point(id: str, entry_point: Any) -> None:
    """Refuses what cannot make an environment, before gymnasium calls it."""
    wanted = "Give the class, a function that makes one, or 'module:name'"
    if isinstance(entry_point, str):
        if not all(entry_point.partition(":")):
            raise RegistrationError(f"{id}: {entry_point!r} names no class. {wanted}")
    elif isinstance(entry_point, gymnasium.Env):
        raise RegistrationError(
            f"{id}: this is an instance of {type(entry_point).__qualname__}, and each make() makes a "
            f"new one. {wanted}"
        )
    elif not callable(entry_point):
        raise RegistrationError(f"{id}: {entry_point!r} makes no environment. {wanted}")
    elif isinstance(entry_point, type):
        if not issubclass(entry_point, gymnasium.Env):
            raise RegistrationError(
                f"{id}: {entry_point.__qualname__} is not an environment. Derive it from "
                f"agentic_gym.ToolEnv. {wanted}"
            )
        if missing := sorted(getattr(entry_point, "__abstractmethods__", ())):
            raise RegistrationError(
                f"{id}: {entry_point.__qualname__} does not define {' and '.join(missing)}. "
                f"Write {'it' if len(missing) == 1 else 'them'} in the class"
            )


def _creator(spec: EnvSpec) -> Callable[..., Any]:
    """What makes the environments of an id; imported if need be."""
    creator: Any = spec.entry_point
    try:
        if isinstance(creator, str):
            creator = load_env_creator(creator)
    except (ImportError, AttributeError) as error:
        raise RegistrationError(f"{spec.id}: cannot import {creator!r}: {error}") from error
    if creator is None:
        raise RegistrationError(f"{spec.id} has no entry point for single environments")
    _check_entry_point(spec.id, creator)
    return creator  # type: ignore[no-any-return]


def _parameters(creator: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    try:
        return dict(inspect.signature(creator).parameters)
    except (TypeError, ValueError):  # written in C, for instance: it takes what it takes
        return {"kwargs": inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)}


def _is_named(parameter: inspect.Parameter) -> bool:
    return parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)


def _check_arguments(
    id: str, parameters: dict[str, inspect.Parameter], kwargs: dict[str, Any]
) -> None:
    """Refuses arguments that the environment does not take, before gymnasium makes a TypeError."""
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        return
    own = [name for name, parameter in parameters.items() if _is_named(parameter)]
    expected = [*own, *sorted(_option_names())]
    for key in kwargs:
        if key not in own:
            hint = did_you_mean(key, expected) or f" It takes {', '.join(expected)}."
            raise RegistrationError(f"{id} has no option {key!r}.{hint}")


def _option_names() -> set[str]:
    return {*_OPTIONS, "count_tokens"}


def _is_ours(wrapper: WrapperSpec) -> bool:
    return wrapper.entry_point.startswith(_WRAPPERS)


def _name(entry_point: Any) -> str:
    if isinstance(entry_point, str):
        return entry_point
    return (
        f"{entry_point.__module__}:{entry_point.__qualname__}"
        if hasattr(entry_point, "__qualname__")
        else repr(entry_point)
    )


_declare_plugins(importlib.metadata.entry_points(group=GROUP))
