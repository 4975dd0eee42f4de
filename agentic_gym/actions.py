"""Action text: from what a model wrote to tool calls, and back.

The canonical form is that of Qwen3 and Hermes: any text, an optional ``<think>…</think>`` before it, and
zero or more blocks ::

    <tool_call>
    {"name": "view", "arguments": {"path": "a.py"}}
    </tool_call>

A call is run only if all of it could be read. Whatever is wrong (bad escape, two objects, a missing
name, a block that was cut off) becomes :attr:`ToolCall.error`, never a call with fewer arguments.

Rejected: finding blocks with one regular expression, as most parsers do. It ends a call at a
``</tool_call>`` *inside* a JSON string, and takes a ``<think>`` in a file's text for reasoning; so the
JSON decoder says where a block ends, and tags count only outside it.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from agentic_gym.types import ToolCall

MAX_CALLS = 64
"""Calls read per message. The rest is answered by one error, so that answers stay bounded."""

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_TAG = re.compile(r"<think>|</think>|<tool_call>")
_BLOCK_END = re.compile(r"</tool_call>|<tool_call>|</think>")
_SURROGATE = re.compile("[\ud800-\udfff]")
_KEYS = frozenset({"name", "arguments"})
_MAX_DEPTH = 100
_TOO_DEEP = f"Invalid JSON: nested too deeply, more than {_MAX_DEPTH} levels"


@dataclass(frozen=True, slots=True)
class ParsedAction:
    """One message of the agent, taken apart.

    Attributes:
        calls: in the order written; those that could not be read carry an ``error``.
        content: the text outside of calls and reasoning, stripped.
        reasoning: the text between ``<think>`` and ``</think>``, stripped.
    """

    calls: tuple[ToolCall, ...]
    content: str
    reasoning: str


def parse_action(text: str) -> ParsedAction:
    """Reads an action.

    Total: any string gives a result. ``<tool_call>`` inside reasoning is not a call, also where the
    opening ``<think>`` was part of the prompt and only ``</think>`` is in the text.

    >>> parse_action('<tool_call>{"name": "view", "arguments": {"path": "a.py"}}</tool_call>').calls[0].name
    'view'
    """
    content: list[str] = []
    reasoning: list[str] = []
    calls: list[ToolCall] = []
    think_was_opened = False
    position = 0
    while tag := _TAG.search(text, position):
        content.append(text[position : tag.start()])
        position = tag.end()
        if tag.group() == "<think>":
            think_was_opened = True
            end = text.find("</think>", position)
            reasoning.append(text[position:] if end < 0 else text[position:end])
            position = len(text) if end < 0 else end + len("</think>")
        elif tag.group() == "</think>":
            if not think_was_opened:  # the prompt opened it: all that came before was reasoning
                reasoning, content, calls = [text[: tag.start()]], [], []
                think_was_opened = True
        elif len(calls) == MAX_CALLS:
            error = (
                f"Too many calls: at most {MAX_CALLS} a message are read. "
                "This one and those after it were not run."
            )
            calls.append(ToolCall(f"call_{MAX_CALLS}", "", None, error, raw=text[tag.start() :]))
            position = len(text)
        else:
            call, position = _read_block(text, tag.start(), f"call_{len(calls)}")
            calls.append(call)
    content.append(text[position:])
    return ParsedAction(tuple(calls), "".join(content).strip(), "\n".join(reasoning).strip())


def format_action(calls: Sequence[tuple[str, dict[str, Any]]], content: str = "") -> str:
    r"""Writes an action as Qwen3's chat template does, for scripted agents and demonstrations.

    >>> format_action([("view", {"path": "a.py"})], content="Looking.")
    'Looking.\n<tool_call>\n{"name": "view", "arguments": {"path": "a.py"}}\n</tool_call>'
    """
    blocks = [
        f'{_OPEN}\n{{"name": {json.dumps(name, ensure_ascii=False)}, '
        f'"arguments": {json.dumps(arguments, ensure_ascii=False)}}}\n{_CLOSE}'
        for name, arguments in calls
    ]
    return "\n".join([content, *blocks] if content else blocks)


class _Unreadable(Exception):
    """What is wrong with the text of a call."""


def _read_block(text: str, start: int, call_id: str) -> tuple[ToolCall, int]:
    """Reads the block whose ``<tool_call>`` is at ``start``; returns the call and where it ended."""
    begin = _skip_space(text, start + len(_OPEN))
    end: int | None = None
    name, arguments, error = "", None, None
    try:
        value, after = _decode(text, begin)
        after = _skip_space(text, after)
        if text.startswith(_CLOSE, after):
            end = after
        else:
            _refuse_rest(text[after : after + 40])
        name = _name_of(value)
        arguments = _arguments_of(value)
    except _Unreadable as reason:
        error = str(reason)
    if end is None:
        found = _BLOCK_END.search(text, begin)
        end = found.start() if found else len(text)
        if found is None:
            error = f"The call was cut off ({_CLOSE} is missing) and was not run: {error}"
    stop = end + len(_CLOSE) if text.startswith(_CLOSE, end) else end
    return ToolCall(call_id, name, arguments, error, raw=text[start:stop]), stop


def _decode(text: str, begin: int) -> tuple[Any, int]:
    """Decodes one JSON value at ``begin``; literal line feeds in strings are accepted."""
    try:
        value, after = _DECODER.raw_decode(text, begin)
    except json.JSONDecodeError as error:
        at = error.pos
        near = text[max(begin, at - 20) : at + 20]
        raise _Unreadable(
            f"Invalid JSON: {error.msg} at character {at - begin}, near {_show(near)}"
        ) from None
    except RecursionError:
        raise _Unreadable(_TOO_DEEP) from None
    except ValueError as error:  # an integer of more than 4,300 digits
        raise _Unreadable(f"Invalid JSON: {error}") from None
    _refuse_odd(value)
    return value, after


def _refuse_rest(rest: str) -> NoReturn:
    if not rest:
        raise _Unreadable("the text ends after the JSON object")
    if rest.startswith("{"):
        raise _Unreadable("Two JSON objects in one call: write one object per <tool_call> block")
    raise _Unreadable(f"Expected {_CLOSE} after the JSON object, found {_show(rest)}")


def _name_of(value: Any) -> str:
    if not isinstance(value, dict):
        raise _Unreadable(f"Expected a JSON object, found {_show(value)}")
    name = value.get("name")
    if not isinstance(name, str) or not name:
        raise _Unreadable('The object has no "name": the name of the tool to call')
    return name


def _arguments_of(value: dict[str, Any]) -> dict[str, Any]:
    if unexpected := sorted(value.keys() - _KEYS):
        raise _Unreadable(
            f'Unexpected key {_show(unexpected[0])}: expected only "name" and "arguments"'
        )
    arguments = value.get("arguments")
    if isinstance(arguments, str):  # some models encode the arguments twice
        arguments, after = _decode(arguments, _skip_space(arguments, 0))
        if value["arguments"][after:].strip():
            raise _Unreadable('"arguments" is a string with more than one JSON value')
    if arguments is None:
        return {}
    if not isinstance(arguments, dict):
        raise _Unreadable(f'"arguments" must be a JSON object, found {_show(arguments)}')
    return arguments


def _refuse_odd(value: Any) -> None:
    """Refuses what Python's decoder accepts and tools would crash on, level by level."""
    level = [value]
    for _ in range(_MAX_DEPTH):
        if any(isinstance(item, str) and _SURROGATE.search(item) for item in level):
            raise _Unreadable("Not valid Unicode: a string has a lone surrogate")
        level = [child for item in level for child in _children(item)]
        if not level:
            return
    raise _Unreadable(_TOO_DEEP)


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return (*value, *value.values())
    return value if isinstance(value, list) else ()


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    decoded = dict(pairs)
    if len(decoded) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        twice = next(key for key, count in counts.items() if count > 1)
        raise _Unreadable(f"Invalid JSON: the key {_show(twice)} occurs twice in one object")
    return decoded


def _constant(name: str) -> NoReturn:
    raise _Unreadable(f"Invalid JSON: {name} is not a JSON number")


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise _Unreadable(f"Invalid JSON: the number {_show(text)} is out of range")
    return value


_DECODER = json.JSONDecoder(
    strict=False, object_pairs_hook=_object, parse_constant=_constant, parse_float=_float
)


def _skip_space(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\r\n":
        position += 1
    return position


def _show(value: Any) -> str:
    """A short, always encodable rendering of something that the agent wrote."""
    shown = ascii(value) if isinstance(value, str) and _SURROGATE.search(value) else repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."
