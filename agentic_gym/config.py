"""Configuration: strict pydantic classes, filled from a YAML file, from flags, or from both.

A key that nothing knows is refused with the nearest known one; a key that nothing would read in this
combination (:class:`ReadWhen`) is refused too, because a silent option is a wrong experiment. What
:func:`dump_config` writes is complete, and loading it gives the same configuration again.

YAML is read by the 1.2 rules: ``1e-4`` is a number, ``no`` and ``12:30`` are text. PyYAML's own
rules (1.1) read them as text, a boolean and 750. Rejected: OmegaConf and Hydra (a second type system,
interpolation, and unknown keys pass unless each class forbids them).
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

import pydantic
import tyro
import yaml

from agentic_gym.config_messages import (
    explained,
    first_unknown,
    flag_complaint,
    flags_of,
    mappings_of,
    unknown_flag,
)
from agentic_gym.errors import ConfigError

C = TypeVar("C", bound="StrictConfig")


@dataclass(frozen=True)
class ReadWhen:
    """Marks a key that is read only when another key of the same class has one of some values.

    For instance ``max_staleness: Annotated[int, ReadWhen("kind", ("async",))] = 3`` refuses a
    ``max_staleness`` other than 3 while ``kind`` is ``"sync"``.
    """

    key: str
    values: tuple[Any, ...]


class StrictConfig(pydantic.BaseModel):
    """Base of every configuration class: frozen, with no unknown and no unread keys."""

    model_config = pydantic.ConfigDict(
        frozen=True, extra="forbid", validate_default=True, ser_json_inf_nan="constants"
    )

    def __init__(self, /, **values: Any) -> None:
        """Fills the fields.

        Raises:
            ConfigError: a key is unknown or unread here, or a value is wrong.
        """
        with explained(type(self)):
            super().__init__(**values)

    @pydantic.model_validator(mode="after")
    def _refuse_unread(self) -> Self:
        for name, info in type(self).model_fields.items():
            for mark in info.metadata:
                if not isinstance(mark, ReadWhen) or getattr(self, mark.key) in mark.values:
                    continue
                if getattr(self, name) != info.get_default(call_default_factory=True):
                    raise ValueError(
                        f"{name} is read only when {mark.key} is "
                        f"{' or '.join(map(repr, mark.values))}, and {mark.key} is "
                        f"{getattr(self, mark.key)!r}: remove {name}, or set {mark.key}"
                    )
        return self


@dataclass(frozen=True, slots=True)
class Switch:
    """A word of the command line that is no key; its command takes it before the flags are read.

    Attributes:
        flag: as written.
        help: one line.
        value: what follows it, in capitals; empty for none.
    """

    flag: str
    help: str
    value: str = ""


CONFIG_SWITCH = Switch("--config", "YAML file with any of the keys; flags win over it", "FILE")


def parse_flags(
    cls: type[C],
    argv: Sequence[str],
    *,
    prog: str | None = None,
    default: C | None = None,
    switches: Sequence[Switch] = (),
) -> C:
    """Fills a configuration from command-line flags.

    Args:
        cls: what to fill; nested classes become dotted flags (``--ppo.clip 0.2``).
        argv: the flags; ``--help`` prints every one and exits.
        prog: the command's name in the help.
        default: what holds where no flag is given; otherwise the class's own defaults.
        switches: what the command took from its line before; listed in the help and suggested.

    Raises:
        ConfigError: a flag is unknown, unread, missing, or has a wrong value.
    """
    said = io.StringIO()
    arguments = list(argv)
    wants_help = any(word in {"-h", "--help"} for word in arguments)
    # tyro prints its complaint and exits; a library raises, so what it printed becomes the message.
    quiet = contextlib.nullcontext() if wants_help else contextlib.redirect_stderr(said)
    fallback = tyro.MISSING_NONPROP if default is None else default
    flags, mappings = flags_of(cls, default), mappings_of(cls, default)
    known = [*flags, *(switch.flag for switch in switches)]
    try:
        with quiet, explained(cls):
            config: C
            config, unknown = tyro.cli(
                cls, args=arguments, prog=prog, default=fallback, return_unknown_args=True
            )
    except SystemExit as stop:
        if not stop.code:
            _print_switches(switches, mappings)
            raise
        message = flag_complaint(said.getvalue(), arguments, flags)
        if message is not None:
            raise ConfigError(message) from None
        unknown = [first_unknown(arguments, flags) or ""]
    if unknown:
        raise ConfigError(unknown_flag(unknown[0], known, mappings))
    return config


def _print_switches(switches: Sequence[Switch], mappings: Mapping[str, str]) -> None:
    """What tyro's help does not know of."""
    rows = [(f"{switch.flag} {switch.value}".strip(), switch.help) for switch in switches]
    width = max((len(words) for words, _ in rows), default=0)
    if rows:
        print("besides:")
    for words, text in rows:
        print(f"  {words:<{width}}  {text}")
    if CONFIG_SWITCH in switches and mappings:
        print(f"mappings, set in the YAML file: {', '.join(mappings.values())}")


def load_config(
    cls: type[C],
    argv: Sequence[str] = (),
    yaml_path: str | os.PathLike[str] | None = None,
    *,
    prog: str | None = None,
) -> C:
    """Fills a configuration from a YAML file, then from flags, which win.

    Args:
        cls: what to fill.
        argv: flags; ``--config FILE`` among them names the file.
        yaml_path: the file, unless ``--config`` names one.
        prog: the command's name in the help.

    Raises:
        ConfigError: the file cannot be read, or a key, flag or value is wrong.
    """
    flag, rest = take_config_flag(argv)
    path = yaml_path if flag is None else flag
    default = None if path is None else read_yaml(cls, path)
    return parse_flags(cls, rest, prog=prog, default=default, switches=[CONFIG_SWITCH])


def read_yaml(cls: type[C], path: str | os.PathLike[str], *, default: C | None = None) -> C:
    """Fills a configuration from a YAML file.

    Args:
        cls: of the configuration.
        path: of the file.
        default: what the file does not say, section by section; a free mapping (options of an environment,
            for instance) is taken whole. None: the defaults of the class.

    Raises:
        ConfigError: the file cannot be read, or a key or value is wrong.
    """
    try:
        data = yaml.load(Path(path).read_text(encoding="utf-8"), _Loader)
    except FileNotFoundError as error:
        raise ConfigError(f"there is no file {path}: give one that exists") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, yaml.YAMLError) as error:  # a number can be too long to read
        raise ConfigError(f"{path} cannot be read as YAML: {error}") from error
    if data is None:
        data = {}
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        raise ConfigError(f"{path} must hold keys and values, not {str(data)[:80]!r}")
    try:
        return cls(**(data if default is None else _over(default, data)))
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def _over(default: StrictConfig, data: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a configuration with others over them, section by section."""
    merged = {name: getattr(default, name) for name in default.model_fields_set}
    for key, value in data.items():
        section = getattr(default, key, None) if key in type(default).model_fields else None
        nested = isinstance(section, StrictConfig) and isinstance(value, dict)
        merged[key] = _over(section, value) if nested else value  # type: ignore[arg-type]
    return merged


def dump_config(config: StrictConfig, path: str | os.PathLike[str]) -> None:
    """Writes a configuration, complete, whole or not at all.

    Raises:
        ConfigError: reading it back would not give the same configuration.
    """
    target = Path(path)
    text = yaml.dump(
        config.model_dump(mode="json"), Dumper=_Dumper, sort_keys=False, allow_unicode=True
    )
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    try:
        partial.write_text(text, encoding="utf-8")
        again = read_yaml(type(config), partial)
        if repr(again) != repr(config):  # by repr: NaN differs from itself
            raise ConfigError(f"{config!r} changes when written and read again: {again!r}")
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def take_config_flag(argv: Sequence[str]) -> tuple[str | None, list[str]]:
    """Splits ``--config FILE`` from the other words; None without one.

    Raises:
        ConfigError: it has no file behind it, or is given twice.
    """
    path: str | None = None
    rest: list[str] = []
    words = iter(argv)
    for word in words:
        if word != "--config" and not word.startswith("--config="):
            rest.append(word)
            continue
        value = word.partition("=")[2] or next(words, "")
        if not value or value.startswith("--"):
            raise ConfigError("--config needs a file: --config run.yaml")
        if path is not None:
            raise ConfigError(f"--config is given twice ({path}, {value}): give one file")
        path = value
    return path, rest


class _Loader(yaml.SafeLoader):
    """YAML 1.2's core schema, and no key twice."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(
                    None, None, "a key must be a word, not a list or a mapping", key.start_mark
                )
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value!r} occurs twice", key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


class _Dumper(yaml.SafeDumper):
    """Quotes text exactly where :class:`_Loader` would read something else."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


for _tag, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", "~nN\0"),
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("float", r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", "-+."),
):
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(
            f"tag:yaml.org,2002:{_tag}",
            re.compile(f"^(?:{_pattern})$"),
            [c if c != "\0" else "" for c in _first],
        )


def _construct_int(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    text = loader.construct_scalar(node)
    return int(text, 0) if text[:2] in {"0o", "0x"} else int(text)


_Loader.add_constructor("tag:yaml.org,2002:int", _construct_int)


def _represent_str(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # Unquoted, PyYAML folds the line breaks of Unicode (U+0085, U+2028) into spaces.
    style = None if text.isprintable() else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_str)
