"""Tools: methods that an agent can call, and the schemas that tell it how.

``@tool`` marks a method. Its type hints and its Google-style docstring become a JSON schema through
pydantic, and pydantic validates each call's arguments; unknown arguments are refused.

Rejected: hand-written schemas beside the methods (they drift), and a registry of free functions (a tool
acts on the state of one episode, so it belongs to the environment that holds it).
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import inspect
import json
import pathlib
import re
import typing
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pydantic

from agentic_gym.actions import MAX_CALLS, ParsedAction, format_action, parse_action
from agentic_gym.errors import ToolCallError, ToolDefinitionError

__all__ = [
    "MAX_CALLS",
    "ParsedAction",
    "ToolSpec",
    "bind_arguments",
    "collect_tools",
    "format_action",
    "is_tool",
    "parse_action",
    "tool",
    "write_answer",
]

_F = TypeVar("_F", bound=Callable[..., Any])
_MARK = "__agentic_gym_tool__"
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_SECTION = re.compile(r"^(Args|Arguments|Returns|Raises|Yields|Note|Notes|Example|Examples):\s*$")
_ARGUMENT = re.compile(r"^(\w+)\s*(?:\([^)]*\))?:\s*(.*)$")
_SHOWN_ERRORS = 5
# What JSON cannot hold and Python prints alike in every run.
_PRINTED = (
    pathlib.PurePath,
    datetime.date,
    datetime.time,
    datetime.timedelta,
    decimal.Decimal,
    fractions.Fraction,
    uuid.UUID,
    enum.Enum,
    bytes,
    complex,
)


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What an agent is told about one tool.

    Attributes:
        name: of the method.
        description: the docstring up to its sections.
        parameters: JSON schema of the arguments object.
    """

    name: str
    description: str
    parameters: dict[str, Any]

    def to_openai(self) -> dict[str, Any]:
        """The form that OpenAI's API, chat templates and ``renderers`` take."""
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": json.loads(json.dumps(self.parameters)),
            },
        }

    @property
    def signature(self) -> str:
        """One line for error messages, as ``view(path: string, line: integer = 1)``."""
        required = self.parameters.get("required", ())
        parts = []
        for name, schema in self.parameters["properties"].items():
            default = "" if name in required else f" = {json.dumps(schema.get('default'))}"
            parts.append(f"{name}: {_type_name(schema)}{default}")
        return f"{self.name}({', '.join(parts)})"


@typing.overload
def tool(method: _F) -> _F: ...
@typing.overload
def tool() -> Callable[[_F], _F]: ...
def tool(method: _F | None = None) -> _F | Callable[[_F], _F]:
    """Marks a method of a :class:`~agentic_gym.env.ToolEnv` as a tool; ``@tool`` and ``@tool()`` do so.

    The method takes typed parameters and returns the text of the observation. It raises
    :class:`~agentic_gym.errors.ToolCallError` where the call makes no sense: the agent sees the message.

    Raises:
        ToolDefinitionError: no docstring, a parameter without a type, ``*args`` or ``**kwargs``, a
            documented parameter that does not exist, or no ``self``: static and class methods are
            refused, in either order of the decorators.
    """
    if method is None:
        return tool
    where = getattr(method, "__qualname__", repr(method))
    if not inspect.isfunction(method) or inspect.iscoroutinefunction(method):
        raise ToolDefinitionError(
            f"@tool goes on a plain method, not on {where}, which is {_kind(method)}"
        )
    if next(iter(inspect.signature(method).parameters), None) != "self":
        # Whether @staticmethod or @classmethod follows cannot be seen from here; they would hide the tool.
        raise ToolDefinitionError(
            f"{where}: the first parameter of a tool is self. Write a plain method, without "
            "@staticmethod or @classmethod"
        )
    summary, documented = _read_docstring(method)
    if not summary:
        raise ToolDefinitionError(
            f"{where} has no docstring. The agent reads it: say in one line what the tool does"
        )
    parameters = _parameters(method)
    for name, parameter in parameters.items():
        if parameter.kind in (*_VARIADIC, inspect.Parameter.POSITIONAL_ONLY):
            raise ToolDefinitionError(
                f"{where}: {parameter} cannot be filled by name. Write plain, named parameters"
            )
        if parameter.annotation is inspect.Parameter.empty:
            raise ToolDefinitionError(
                f"{where}: {name} has no type. Write one, for instance {name}: str"
            )
    if unknown := sorted(documented.keys() - parameters.keys()):
        raise ToolDefinitionError(
            f"{where}: the docstring documents {unknown[0]!r}, which is not a parameter. "
            f"Parameters: {', '.join(parameters) or 'none'}"
        )
    setattr(method, _MARK, True)
    return method


def is_tool(value: Any) -> bool:
    """Whether a class's attribute was marked with :func:`tool`."""
    return inspect.isfunction(value) and hasattr(value, _MARK)


def collect_tools(cls_or_obj: Any) -> dict[str, ToolSpec]:
    """All tools of a class or object by name: base classes first, then as written.

    A method that overrides a tool without ``@tool`` of its own is not a tool any more.

    Raises:
        ToolDefinitionError: a type hint cannot be resolved or has no JSON schema, or a default does not
            fit its hint.
    """
    return dict(_collect(cls_or_obj if isinstance(cls_or_obj, type) else type(cls_or_obj)))


def bind_arguments(method: Callable[..., Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """Validates the arguments of a call and converts them to what the method's hints say.

    Raises:
        ToolCallError: says what is wrong with each argument and what is expected.
    """
    function = getattr(method, "__func__", method)
    model = _arguments_model(function)
    try:
        bound = model.model_validate(arguments)
    except pydantic.ValidationError as error:
        problems = [_problem(detail) for detail in error.errors(include_url=False)]
        shown = "; ".join(problems[:_SHOWN_ERRORS])
        if len(problems) > _SHOWN_ERRORS:
            shown += f"; and {len(problems) - _SHOWN_ERRORS} more"
        raise ToolCallError(f"{shown}. Expected: {_spec(function).signature}") from None
    return {info.alias or name: getattr(bound, name) for name, info in model.model_fields.items()}


def write_answer(answer: Any) -> str:
    """What the agent reads of what a tool returned: text as it is, ``ok`` for None, otherwise JSON.

    Beyond JSON's own values: dataclasses and pydantic models as objects, numpy's values as numbers and
    lists, sets as sorted lists, and paths, dates, times, fractions, decimals, UUIDs, enums, bytes and
    complex numbers as Python prints them. Everything else is refused, since what Python prints of an
    object may hold its address: the same episode would read differently in each run.

    Raises:
        TypeError: the answer holds another object.
        ValueError: the answer holds itself.
    """
    if isinstance(answer, str):
        return answer
    return "ok" if answer is None else _to_json(answer)


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> Any:
    """What JSON can hold in place of a value that it cannot."""
    if isinstance(value, _PRINTED):
        return str(value)
    if isinstance(value, pydantic.BaseModel):
        return dict(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=_to_json)  # the order of a set of texts differs between runs
    raise TypeError(f"{type(value).__name__} is not a value that JSON can hold")


@functools.cache
def _collect(cls: type) -> dict[str, ToolSpec]:
    names = dict.fromkeys(
        name for base in reversed(cls.__mro__) for name in vars(base) if not name.startswith("__")
    )
    methods = {name: inspect.getattr_static(cls, name) for name in names}
    return {name: _spec(method) for name, method in methods.items() if is_tool(method)}


@functools.cache
def _spec(function: Callable[..., Any]) -> ToolSpec:
    try:
        schema = _arguments_model(function).model_json_schema(by_alias=True)
    except pydantic.errors.PydanticUserError as error:
        raise ToolDefinitionError(
            f"{function.__qualname__} has no JSON schema: {_first(error)}"
        ) from error
    parameters = {key: value for key, value in _without_titles(schema).items() if key != "title"}
    parameters.setdefault("properties", {})
    return ToolSpec(function.__name__, _read_docstring(function)[0], parameters)


@functools.cache
def _arguments_model(function: Callable[..., Any]) -> type[pydantic.BaseModel]:
    """A model with one field a parameter.

    The fields are numbered and the parameters are their aliases, since names such as ``json`` or
    ``copy`` would shadow pydantic's own.
    """
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except NameError as error:
        raise ToolDefinitionError(
            f"{function.__qualname__}: the type hint {error.name!r} cannot be resolved. "
            "Define or import it at module level, outside of `if TYPE_CHECKING`"
        ) from error
    documented = _read_docstring(function)[1]
    fields: dict[str, Any] = {}
    for index, (name, parameter) in enumerate(_parameters(function).items()):
        required = parameter.default is inspect.Parameter.empty
        if not required:
            _check_default(function, name, hints[name], parameter.default)
        fields[f"argument_{index}"] = (
            hints[name],
            pydantic.Field(
                default=... if required else parameter.default,
                alias=name,
                description=documented.get(name),
            ),
        )
    config = pydantic.ConfigDict(extra="forbid")
    try:
        return pydantic.create_model(function.__name__, __config__=config, **fields)
    except pydantic.errors.PydanticUserError as error:
        raise ToolDefinitionError(
            f"{function.__qualname__} has no JSON schema: {_first(error)}"
        ) from error


def _check_default(function: Callable[..., Any], name: str, hint: Any, default: Any) -> None:
    """Refuses a default that a call could not give: the agent would be told of it, and the tool get it."""
    try:
        pydantic.TypeAdapter(hint).validate_python(default, strict=True)
    except pydantic.ValidationError as error:
        optional = f". Write {name}: ... | None = None" if default is None else ""
        raise ToolDefinitionError(
            f"{function.__qualname__}: the default of {name} does not fit its type hint: "
            f"{_problem(error.errors(include_url=False)[0] | {'loc': (name,)})}{optional}"
        ) from None
    except pydantic.errors.PydanticUserError as error:
        raise ToolDefinitionError(
            f"{function.__qualname__} has no JSON schema: {_first(error)}"
        ) from error


def _kind(value: Any) -> str:
    return "async" if inspect.iscoroutinefunction(value) else f"a {type(value).__name__}"


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    parameters = dict(inspect.signature(function).parameters)
    parameters.pop("self", None)
    return parameters


def _read_docstring(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """The text before the sections, and the entries of ``Args:`` by parameter."""
    summary: list[str] = []
    arguments: dict[str, str] = {}
    section, name = "", ""
    for line in inspect.cleandoc(function.__doc__ or "").splitlines():
        if heading := _SECTION.match(line):
            section, name = heading.group(1), ""
        elif not section:
            summary.append(line)
        elif section in ("Args", "Arguments") and line.strip():
            indent = len(line) - len(line.lstrip())
            entry = _ARGUMENT.match(line.strip()) if indent <= 4 else None
            if entry:
                name = entry.group(1)
                arguments[name] = entry.group(2)
            elif name:
                arguments[name] = f"{arguments[name]} {line.strip()}".strip()
    return "\n".join(summary).strip(), arguments


def _without_titles(schema: Any) -> Any:
    """Drops pydantic's ``title`` strings: tokens that tell an agent nothing."""
    if isinstance(schema, list):
        return [_without_titles(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: _without_titles(value)
        for key, value in schema.items()
        if not (key == "title" and isinstance(value, str))
    }


def _type_name(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    if "const" in schema:
        return json.dumps(schema["const"])
    if "anyOf" in schema:
        return " | ".join(_type_name(option) for option in schema["anyOf"])
    if "$ref" in schema:
        return str(schema["$ref"].rsplit("/", 1)[-1])
    return str(schema.get("type", "any"))


def _first(error: Exception) -> str:
    """The first line of one of pydantic's long messages."""
    return str(error).partition("\n")[0]


def _problem(detail: Any) -> str:
    """One line for one of pydantic's errors, with the offending value where it is short."""
    where = ".".join(str(part) for part in detail["loc"]) or "arguments"
    if detail["type"] == "missing":
        return f"{where} is missing"
    if detail["type"] == "extra_forbidden":
        return f"{where[:60]} is not an argument"
    value = ascii(detail["input"])
    return f"{where}: {detail['msg']}, got {value if len(value) <= 60 else value[:57] + '...'}"
