"""What :mod:`~agentic_gym.config` says about a wrong key, value or flag.

pydantic and tyro report in words of their own (classes, parsers, frames); here these become the key or flag,
its value, and the remedy.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import UnionType
from typing import Any, Union, get_args, get_origin

import pydantic

from agentic_gym.errors import ConfigError
from agentic_gym.suggest import did_you_mean, question

_NUMBERS = (
    (re.compile(r"invalid literal for int\(\) with base 10: (.*)"), "is not a whole number"),
    (re.compile(r"could not convert string to float: (.*)"), "is not a number"),
)


@contextlib.contextmanager
def explained(cls: type[pydantic.BaseModel]) -> Iterator[None]:
    """Turns pydantic's report into a ``ConfigError``."""
    try:
        yield
    except pydantic.ValidationError as error:
        unknown = [d["loc"] for d in error.errors() if d["type"] == "extra_forbidden"]
        others = [_explain(d) for d in error.errors() if d["type"] != "extra_forbidden"]
        said = ([_unknown_keys(cls, unknown)] if unknown else []) + others
        raise ConfigError(f"{cls.__name__}: {'; '.join(said)}") from None


def _unknown_keys(cls: type[pydantic.BaseModel], places: Sequence[Sequence[Any]]) -> str:
    """About all keys at once that a class does not know.

    A class may name keys of other files (``keys_of_others()``) and what reads those: then the file is the
    wrong one, and the resemblance of single keys says nothing.
    """
    known = sorted(cls.model_fields)
    keys = [".".join(map(str, place)) for place in places]
    readers: Mapping[str, str] = getattr(cls, "keys_of_others", dict)()
    reader = next((readers[key] for key in keys if key in readers), None)
    hints = ["" if reader else _hint(key, known) for key in keys]
    if len(keys) == 1:
        words = f"unknown key {keys[0]!r}.{hints[0]}"
    else:
        listed = (
            f"{key!r}{hint and f' ({hint.strip()})'}" for key, hint in zip(keys, hints, strict=True)
        )
        words = f"unknown keys {', '.join(listed)}."
    if reader:
        words += f" This is a configuration of {reader}."
    return f"{words} Known: {', '.join(known)}"


def _explain(details: Any) -> str:
    # A nested configuration explains itself; its words arrive here as a value error.
    path = ".".join(str(part) for part in details["loc"])
    if details["type"] == "missing":
        return f"{path!r} is needed and has no default"
    if details["type"] == "value_error":
        return ": ".join(filter(None, [path, str(details["ctx"]["error"])]))
    return f"{path} = {details['input']!r:.80}: {details['msg'].removeprefix('Input ')}"


def _hint(word: str, known: Iterable[str]) -> str:
    """`` Did you mean …?`` where something known resembles the word, else nothing."""
    names = list(known)
    bare = word.lstrip("-")  # the last part of a nested key perhaps, given without its parents
    inner = [name for name in names if name.rpartition(".")[2] == bare]
    return did_you_mean(word, names) or question(inner[:1])


# ---- keys ------------------------------------------------------------------------------------------


def _models_of(annotation: Any) -> Iterator[type[pydantic.BaseModel]]:
    """Nested configurations that a field may hold by itself, not those within a list or a dictionary."""
    if isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel):
        yield annotation
    if get_origin(annotation) in {Union, UnionType}:
        for argument in get_args(annotation):
            yield from _models_of(argument)


def _fields(
    cls: type[pydantic.BaseModel], default: Any, prefix: str = ""
) -> Iterator[tuple[str, bool]]:
    """Dotted keys, and whether each is a mapping of which no flag can be made as a whole."""
    for name, info in cls.model_fields.items():
        inner = list(_models_of(info.annotation))
        value = getattr(default, name, None)
        if not inner:
            scalars = get_args(info.annotation)[1:] in {(str,), (int,), (float,), (bool,)}
            mapping = get_origin(info.annotation) is dict
            yield prefix + name, mapping and (bool(value) or not scalars)
        for model in inner:
            yield from _fields(model, value, f"{prefix}{name}.")
        if isinstance(value, dict):
            yield from _entries(value, f"{prefix}{name}.")


def _entries(values: Mapping[Any, Any], prefix: str) -> Iterator[tuple[str, bool]]:
    """What a mapping of the default holds: each of its keys is a flag."""
    for key, value in values.items():
        if isinstance(value, pydantic.BaseModel):
            yield from _fields(type(value), value, f"{prefix}{key}.")
        elif isinstance(value, Mapping):
            yield f"{prefix}{key}", True
            yield from _entries(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", False


def flags_of(cls: type[pydantic.BaseModel], default: Any = None) -> list[str]:
    """``--a.b`` for every key, mappings included."""
    return [f"--{key.replace('_', '-')}" for key, _ in _fields(cls, default)]


def mappings_of(cls: type[pydantic.BaseModel], default: Any = None) -> dict[str, str]:
    """Keys that hold a mapping, by the flag that they would be."""
    return {f"--{key.replace('_', '-')}": key for key, mapping in _fields(cls, default) if mapping}


# ---- flags -----------------------------------------------------------------------------------------


def unknown_flag(given: str, known: Sequence[str], mappings: Mapping[str, str]) -> str:
    """What to say about a flag that nothing knows.

    Args:
        given: as it was given.
        known: every flag.
        mappings: those that hold a mapping, and their keys.
    """
    word = given.split("=")[0].replace("_", "-")
    inside = [flag for flag in mappings if word == flag or word.startswith(f"{flag}.")]
    if inside:
        flag = max(inside, key=len)
        entries = [name for name in known if name.startswith(f"{flag}.")]
        return (
            f"{word} cannot be given as a flag: {mappings[flag]} is a mapping.{_hint(word, entries)} "
            f"{_REMEDY.format(mappings[flag])}."
        )
    words = _hint(word, known)
    for flag, key in mappings.items():
        if repr(flag) in words:
            words += f" That is a mapping. {_REMEDY.format(key)}."
    return f"unknown flag {given!r}.{words} --help lists all flags."


_REMEDY = "Set {} in a YAML file, and give that with --config FILE"


def flag_complaint(said: str, argv: Sequence[str], flags: Sequence[str]) -> str | None:
    """What tyro says about flags, in words of ours.

    Args:
        said: what tyro printed.
        argv: what was given.
        flags: every flag.

    Returns:
        The message; None if a flag in ``argv`` is unknown, which is the better complaint.
    """
    text = _unboxed(said)
    if text.startswith("Required options:"):
        if first_unknown(argv, flags) is not None:
            return None
        needed = re.findall(r"(--[\w.-]+)[^()]*\(required\)", text)
        return f"{' and '.join(needed)} must be given: there is no default" if needed else text
    match = re.fullmatch(r"Value error: Error parsing (\S+): (.*?)( Argument helptext:.*)?", text)
    if match is None:
        return text
    place, words = match[1], match[2]
    if place.startswith("--"):
        for pattern, complaint in _NUMBERS:
            if number := pattern.fullmatch(words):
                return f"{place} = {number[1]} {complaint}"
        return f"{place}: {words}"
    # A configuration's own words: its class comes first, then perhaps one of its keys.
    owner, _, rest = words.partition(": ")
    return _with_flags(rest, "" if place == owner else f"{place}.", flags) or f"{place}: {rest}"


def first_unknown(argv: Sequence[str], flags: Sequence[str]) -> str | None:
    """The first word that looks like a flag and is none."""
    for given in argv:
        word = given.split("=")[0].replace("_", "-")
        positive = re.sub(r"^(--|.*\.)no-", r"\1", word)
        if word.startswith("--") and word not in flags and positive not in flags:
            return given
    return None


def _with_flags(words: str, prefix: str, flags: Sequence[str]) -> str | None:
    """``gamma = 2: …`` as ``--ppo.gamma = 2: …``; None where no key leads the words."""
    key, separator, rest = words.partition(" = ")
    flag = f"--{prefix}{key}".replace("_", "-")
    return f"{flag}{separator}{rest}" if flag in flags else None


def _unboxed(text: str) -> str:
    """What tyro says, in one line, without its frame and its pointer to ``--help``."""
    lines = [re.sub(r"^\W*[│╭╰]\s*|\s*[│╮╯]\W*$", "", line) for line in text.splitlines()]
    words = [re.sub("─+", "", line).strip() for line in lines]
    kept = itertools.takewhile(lambda word: not word.startswith("For full helptext"), words)
    title, *rest = [word for word in kept if word] or ["The flags cannot be read"]
    return f"{title}: {' '.join(rest)}"
