"""Values of options, checked against the types that a constructor names.

Values come from Python, from a YAML file or as words of a command line. A word is converted: ``inf`` where a
number is asked for, ``true``, ``none``. A type that is not known here is left to the constructor.
"""

from __future__ import annotations

import inspect
import math
import types
from collections.abc import Callable, Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from agentic_gym.errors import ConfigError

_BOOLS = {"true": True, "false": False}
_NONES = ("none", "null")
_UNFIT = object()
"""What a conversion answers to a value of another type."""


def type_hints(of: Callable[..., Any]) -> dict[str, Any]:
    """Types of the parameters of a class's constructor, or of a function; empty where they cannot be read."""
    function = of.__init__ if inspect.isclass(of) else of
    try:
        return get_type_hints(function)
    except (NameError, TypeError, AttributeError):  # names that only a type checker imports
        return {}


def read_options(
    hints: Mapping[str, Any], options: Mapping[str, Any], defaults: Mapping[str, Any]
) -> dict[str, Any]:
    """Options of the types asked for.

    >>> hints = {"bound": int | None, "seconds": float}
    >>> read_options(hints, {"bound": "none", "seconds": "inf"}, {})
    {'bound': None, 'seconds': inf}

    Args:
        hints: types, by name; an option without one is taken as it is.
        options: by name.
        defaults: an option that is None unless it is given may be given as None.

    Raises:
        ConfigError: a value is of another type.
    """
    read = {}
    for name, value in options.items():
        hint = hints.get(name, Any)
        if defaults.get(name, inspect.Parameter.empty) is None:
            hint = hint | None if hint is not Any else Any
        read[name] = _convert(hint, value)
        if read[name] is _UNFIT:
            raise ConfigError(f"{name}={value!r}: it must be {_words(hint)}")
    return read


def _convert(hint: Any, value: Any) -> Any:
    """The value as one of this type, or _UNFIT."""
    if hint is Any:
        return value
    if get_origin(hint) in (Union, types.UnionType):
        return _one_of(get_args(hint), value)
    if get_origin(hint) is Literal:
        fits = [a for a in get_args(hint) if value == a and type(value) is type(a)]
        return next(iter(fits), _UNFIT)
    if get_origin(hint) is tuple and get_args(hint)[1:] == (...,):
        return _tuple(get_args(hint)[0], value)
    return _READERS[hint](value) if hint in _READERS else value


def _one_of(hints: tuple[Any, ...], value: Any) -> Any:
    """By the first type that fits as it is, and only then by conversion."""
    found = [
        _instance(hint, value)
        if inspect.isclass(hint) and hint not in _READERS
        else _convert(hint, value)
        for hint in hints
    ]
    fits = [one for one in found if one is not _UNFIT]
    return next((one for one in fits if type(one) is type(value)), next(iter(fits), _UNFIT))


def _instance(of: type, value: Any) -> Any:
    try:
        return value if isinstance(value, of) else _UNFIT
    except TypeError:  # a protocol that cannot be asked
        return value


def _tuple(hint: Any, value: Any) -> Any:
    if not isinstance(value, list | tuple):
        return _UNFIT
    items = tuple(_convert(hint, item) for item in value)
    return _UNFIT if any(item is _UNFIT for item in items) else items


def _int(value: Any) -> Any:
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            return _UNFIT
    return value if isinstance(value, int) and not isinstance(value, bool) else _UNFIT


def _float(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return _UNFIT
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return _UNFIT
    return _UNFIT if math.isnan(number) else number


def _bool(value: Any) -> Any:
    if isinstance(value, str):
        return _BOOLS.get(value.lower(), _UNFIT)
    return value if isinstance(value, bool) else _UNFIT


def _none(value: Any) -> Any:
    said = isinstance(value, str) and value.lower() in _NONES
    return None if value is None or said else _UNFIT


def _str(value: Any) -> Any:
    return value if isinstance(value, str) else _UNFIT


_READERS: dict[Any, Callable[[Any], Any]] = {
    int: _int,
    float: _float,
    bool: _bool,
    str: _str,
    type(None): _none,
}
_NAMES: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    type(None): "none",
}


def _words(hint: Any) -> str:
    """The type in words; of several, those that a file or a command line can give."""
    if get_origin(hint) in (Union, types.UnionType):
        plain = [one for one in get_args(hint) if not inspect.isclass(one) or one in _NAMES]
        return " or ".join(dict.fromkeys(map(_words, plain or get_args(hint))))
    if get_origin(hint) is Literal:
        return " or ".join(map(repr, get_args(hint)))
    if get_origin(hint) is tuple:
        return f"a list, each {_words(get_args(hint)[0])}"
    return _NAMES.get(hint, getattr(hint, "__name__", str(hint)))
