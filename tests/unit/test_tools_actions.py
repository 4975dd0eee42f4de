"""Reading and writing action text."""

import json
import time

import pytest

from agentic_gym.tools import MAX_CALLS, format_action, parse_action


def block(body: str) -> str:
    return f"<tool_call>\n{body}\n</tool_call>"


def only_call(text: str):  # type: ignore[no-untyped-def]
    (call,) = parse_action(text).calls
    return call


def test_a_call_with_text_and_reasoning_around_it() -> None:
    call = block('{"name": "view", "arguments": {"path": "a.py"}}')
    parsed = parse_action(f"<think>\nHm.\n</think>\n\nLooking.\n{call}\nDone.")
    assert [(c.call_id, c.name, c.arguments, c.error) for c in parsed.calls] == [
        ("call_0", "view", {"path": "a.py"}, None)
    ]
    assert parsed.calls[0].raw == call
    assert parsed.content == "Looking.\n\nDone."
    assert parsed.reasoning == "Hm."


def test_ten_calls_are_numbered_in_order() -> None:
    calls = parse_action(format_action([("t", {"n": n}) for n in range(10)])).calls
    assert [c.call_id for c in calls] == [f"call_{n}" for n in range(10)]
    assert [c.arguments for c in calls] == [{"n": n} for n in range(10)]


@pytest.mark.parametrize("text", ["", "no call", "</tool_call>", "<tool_cal>{}", "\x00", "\ud800"])
def test_text_without_a_call(text: str) -> None:
    parsed = parse_action(text)
    assert parsed.calls == ()
    assert parsed.content == text


@pytest.mark.parametrize(
    ("body", "arguments"),
    [
        ('{"name": "t"}', {}),
        ('{"name": "t", "arguments": null}', {}),
        ('{"arguments": {"a": 1}, "name": "t"}', {"a": 1}),
        ('{"name": "t", "arguments": "{\\"a\\": 1}"}', {"a": 1}),
        ('{"name": "t", "arguments": {"a": "x\ny\tz"}}', {"a": "x\ny\tz"}),
        ('{"name": "t", "arguments": {"a": "\x00"}}', {"a": "\x00"}),
        ('{"name": "t", "arguments": {"a": "\\u0000"}}', {"a": "\x00"}),
        ('{"name": "t", "arguments": {"a": "\\ud83d\\ude42"}}', {"a": "🙂"}),
        ('{"name": "t", "arguments": {"a": "</tool_call>"}}', {"a": "</tool_call>"}),
        ('{"name": "t", "arguments": {"a": "<think></think>"}}', {"a": "<think></think>"}),
        ('{"name": "t", "arguments": {"a": "<tool_call>\\n{}"}}', {"a": "<tool_call>\n{}"}),
    ],
)
def test_accepted(body: str, arguments: dict[str, object]) -> None:
    parsed = parse_action(block(body))
    (call,) = parsed.calls
    assert (call.name, call.arguments, call.error) == ("t", arguments, None)
    assert parsed.content == parsed.reasoning == ""


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ('{"name": "t", "arguments": {"a": "\\q"}}', "Invalid \\escape"),
        ('{"name": "t", "arguments": {"a": 1}', "Expecting ',' delimiter"),
        ('{"a": 1}{"a": 1}', "Two JSON objects"),
        ('{"name": "t", "arguments": {}} and more', "found 'and more"),
        ('{"arguments": {}}', 'no "name"'),
        ('{"name": "", "arguments": {}}', 'no "name"'),
        ('{"name": 3, "arguments": {}}', 'no "name"'),
        ('{"name": "t", "arguments": [1]}', "must be a JSON object, found [1]"),
        ('{"name": "t", "arguments": "x"}', "Invalid JSON"),
        ('{"name": "t", "arguments": "{} {}"}', "more than one JSON value"),
        ('{"name": "t", "args": {"a": 1}}', "Unexpected key 'args'"),
        ('{"name": "t", "name": "u"}', "'name' occurs twice"),
        ('{"name": "t", "arguments": {"a": NaN}}', "NaN is not a JSON number"),
        ('{"name": "t", "arguments": {"a": "\\ud800"}}', "lone surrogate"),
        ('{"name": "t", "arguments": {"\ud800": 1}}', "lone surrogate"),
        ('{"name": "\\ud800", "arguments": {}}', "lone surrogate"),
        ('{"name": "t", "arguments": {"a": ' + "9" * 5000 + "}}", "Exceeds the limit"),
        ('{"name": "t", "arguments": {"a": -1e999}}', "'-1e999' is out of range"),
        ('{"name": "t", "arguments": {"a": ' + "[" * 99 + "]" * 99 + "}}", "nested too deeply"),
        ("[" * 500 + "]" * 500, "nested too deeply"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "Expected a JSON object, found []"),
        ("", "Expecting value"),
    ],
)
def test_refused_and_never_run_as_an_empty_call(body: str, says: str) -> None:
    call = only_call(block(body))
    assert call.error is not None
    assert says in call.error
    assert call.arguments is None
    call.error.encode()


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>",
        '<tool_call>\n{"name": "t", "argu',
        '<tool_call>\n{"name": "t", "arguments": {}}',
        '<tool_call>\n{"name": "t", "arguments": {}}\n</tool_cal',
    ],
)
def test_a_call_that_was_cut_off(text: str) -> None:
    call = only_call(text)
    assert call.error is not None
    assert "cut off" in call.error
    assert call.arguments is None
    assert call.raw == text


def test_a_bad_call_leaves_the_next_one_alone() -> None:
    first, second = parse_action('<tool_call>\n{"name": \n' + block('{"name": "t"}')).calls
    assert first.error is not None
    assert (second.call_id, second.name, second.error) == ("call_1", "t", None)


@pytest.mark.parametrize(
    ("text", "reasoning", "content"),
    [
        (f"<think>{block('{}')}</think>so", block("{}"), "so"),
        (f"<think>{block('{}')}", block("{}"), ""),
        (f"I may {block('{}')} do</think>so", f"I may {block('{}')} do", "so"),
        ("a <tool_call> b</think>so", "a <tool_call> b", "so"),
        ("<think>a</think>b<think>c</think>d", "a\nc", "bd"),
        ("<think>a</think>b</think>c", "a", "bc"),
    ],
)
def test_a_call_inside_reasoning_is_not_a_call(text: str, reasoning: str, content: str) -> None:
    parsed = parse_action(text)
    assert parsed.calls == ()
    assert (parsed.reasoning, parsed.content) == (reasoning, content)


def test_too_many_calls_are_answered_by_one_error() -> None:
    calls = parse_action(block('{"name": "t"}') * (MAX_CALLS + 100)).calls
    assert len(calls) == MAX_CALLS + 1
    assert all(call.error is None for call in calls[:-1])
    assert calls[-1].error is not None
    assert "at most 64" in calls[-1].error


@pytest.mark.parametrize(
    "unit", ["<tool_call>", '<tool_call>["', "</think>", "<think>", "{[", "\n"]
)
def test_long_texts_are_read_in_linear_time(unit: str) -> None:
    start = time.process_time()
    parse_action(unit * (2**19 // len(unit)))
    parse_action("<tool_call>" + unit * (2**19 // len(unit)))
    assert time.process_time() - start < 1.0


def test_a_key_that_comes_twice_is_found_in_linear_time() -> None:
    keys = "".join(f'"k{number}": 1, ' for number in range(30_000))
    start = time.process_time()
    (call,) = parse_action(f'<tool_call>{{{keys}"k": 1, "k": 2}}</tool_call>').calls
    assert call.error == "Invalid JSON: the key 'k' occurs twice in one object"
    assert time.process_time() - start < 1.0


def test_the_format_is_that_of_qwen3() -> None:
    text = format_action([("a", {"x": "é\n"}), ("b", {})], content="Now.")
    assert text == (
        'Now.\n<tool_call>\n{"name": "a", "arguments": {"x": "é\\n"}}\n</tool_call>\n'
        '<tool_call>\n{"name": "b", "arguments": {}}\n</tool_call>'
    )
    assert format_action([]) == ""
    assert json.loads(format_action([("a", {})]).splitlines()[1]) == {"name": "a", "arguments": {}}
