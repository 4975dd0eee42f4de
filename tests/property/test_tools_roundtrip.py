"""What holds for every text: parsing is total, and inverts formatting."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_gym.tools import format_action, parse_action

deterministic = settings(deadline=None, derandomize=True, max_examples=60)

FRAGMENTS = (
    "<tool_call>", "</tool_call>", "<think>", "</think>", "\n", " ", "{", "}", "[", "]", '"', "\\",
    '{"name": "t", "arguments": {}}', '{"name": ', '"arguments": ', ",", ":", "null", "1", "NaN",
    "\x00", "\ud800", "é",
)  # fmt: skip
hostile = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=3), max_size=30).map("".join)
encodable = st.text(st.characters(exclude_categories=["Cs"]))
tagged = st.lists(st.sampled_from(FRAGMENTS[:6]) | encodable, max_size=5).map("".join)
values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | tagged,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(tagged, inner, max_size=3),
    max_leaves=8,
)
calls = st.lists(
    st.tuples(encodable.filter(bool), st.dictionaries(tagged, values, max_size=3)), max_size=5
)
plain = st.text(st.characters(exclude_characters="<", exclude_categories=["Cs"])).map(str.strip)


@deterministic
@given(calls, plain)
def test_parse_inverts_format(written: list[tuple[str, dict[str, Any]]], content: str) -> None:
    parsed = parse_action(format_action(written, content))
    assert [(call.name, call.arguments) for call in parsed.calls] == written
    assert all(call.error is None for call in parsed.calls)
    assert (parsed.content, parsed.reasoning) == (content, "")


@deterministic
@given(calls, plain, st.lists(st.sampled_from(FRAGMENTS[:3]) | plain).map("".join))
def test_reasoning_before_the_calls_changes_none(
    written: list[tuple[str, dict[str, Any]]], content: str, reasoning: str
) -> None:
    reasoning = reasoning.replace("<think>", "")
    for opening in ("<think>", ""):
        parsed = parse_action(f"{opening}{reasoning}</think>{format_action(written, content)}")
        assert [(call.name, call.arguments) for call in parsed.calls] == written
        assert (parsed.content, parsed.reasoning) == (content, reasoning.strip())


@deterministic
@given(hostile)
def test_every_text_is_read_and_a_call_has_either_arguments_or_an_error(text: str) -> None:
    parsed = parse_action(text)
    assert [call.call_id for call in parsed.calls] == [
        f"call_{n}" for n in range(len(parsed.calls))
    ]
    for call in parsed.calls:
        assert (call.arguments is None) == (call.error is not None)
        assert call.raw in text
        if call.error is None:
            json.dumps([call.name, call.arguments], ensure_ascii=False).encode()
        else:
            call.error.encode()


@deterministic
@given(calls.filter(bool), st.integers(min_value=0))
def test_a_message_that_was_cut_off_runs_no_call_that_was_not_whole(
    written: list[tuple[str, dict[str, Any]]], cut: int
) -> None:
    text = format_action(written)
    cut %= len(text)
    good = [(c.name, c.arguments) for c in parse_action(text[:cut]).calls if c.error is None]
    assert good == written[: len(good)]
    assert len(good) < len(written)
