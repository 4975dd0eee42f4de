"""Diffs made by difflib, of any lines with any endings, apply to the byte."""

from __future__ import annotations

import difflib

from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_gym.envs.swe.editing import number_lines, replace_lines
from agentic_gym.envs.swe.patches import apply_patch, parse_patch

LINE = st.sampled_from(
    [b"", b"a", b"b", b"-- c", b"++ d", b"@@ -1 +1 @@", b"diff --git a/x b/x", b"\x0c\xff"]
)
ENDING = st.sampled_from([b"\n", b"\r\n"])


@st.composite
def contents(draw: st.DrawFn) -> bytes:
    lines = draw(st.lists(st.tuples(LINE, ENDING).map(b"".join), max_size=12))
    return b"".join(lines) + draw(st.sampled_from([b"", b"last"]))


def lines_of(content: bytes) -> list[bytes]:
    parts = content.split(b"\n")
    return [part + b"\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def unified(old: bytes, new: bytes, context: int) -> bytes:
    made = difflib.diff_bytes(
        difflib.unified_diff, lines_of(old), lines_of(new), b"a/f", b"b/f", n=context
    )
    return b"".join(
        line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n"
        for line in made
    )


@settings(deadline=None, derandomize=True, max_examples=200)
@given(old=contents(), new=contents(), context=st.integers(0, 3))
def test_apply_inverts_diff(old: bytes, new: bytes, context: int) -> None:
    patch = parse_patch(unified(old, new, context))
    assert apply_patch({"f": old, "g": b"g"}, patch) == {"f": new, "g": b"g"}


@settings(deadline=None, derandomize=True, max_examples=100)
@given(old=contents(), new=contents(), data=st.data())
def test_several_files_in_one_patch(old: bytes, new: bytes, data: st.DataObject) -> None:
    first = unified(old, new, 3)
    second = unified(new, old, 3).replace(b"a/f", b"a/g", 1).replace(b"b/f", b"b/g", 1)
    tree = apply_patch({"f": old, "g": new}, parse_patch(first + second))
    assert tree == {"f": new, "g": old}


@settings(deadline=None, derandomize=True, max_examples=200)
@given(content=contents(), data=st.data())
def test_replace_lines_touches_only_the_named_lines(content: bytes, data: st.DataObject) -> None:
    lines = lines_of(content)
    if not lines:
        return
    start = data.draw(st.integers(1, len(lines)))
    end = data.draw(st.integers(start, len(lines)))
    edit = replace_lines(content, start, end, "fresh")
    changed = lines_of(edit.content)
    assert changed[: start - 1] == lines[: start - 1]
    assert changed[start:] == lines[end:]
    assert number_lines(edit.content, start, start) == f"{start}|fresh"
    assert edit.content.endswith(b"\n") == content.endswith(b"\n")
