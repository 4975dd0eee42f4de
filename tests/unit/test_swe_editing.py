from __future__ import annotations

import pytest

from agentic_gym.envs.swe.editing import (
    number_lines,
    replace_lines,
    replace_text,
    without_numbers,
)
from agentic_gym.errors import ToolCallError


@pytest.mark.parametrize(
    ("content", "old", "new", "expected"),
    [
        (b"a\nb\nc\n", "b", "B", b"a\nB\nc\n"),
        (b"x\r\ny\r\n", "x\ny", "p\nq", b"p\r\nq\r\n"),
        (b"x\r\ny\r\n", "x\r\ny", "p\nq", b"p\r\nq\r\n"),
        (b"a\r\nb\r\n", "b", "b\nc", b"a\r\nb\r\nc\r\n"),
        (b"a\nb", "b", "c", b"a\nc"),
        (b"a\nb", "b\n", "c\n", b"a\nc"),
        (b"a\r\nb", "b\n", "c\nd\n", b"a\r\nc\r\nd"),
        (b"a\nb\nc\n", "b\n", "", b"a\nc\n"),
        (b"x\r\nunix\nlast", "unix", "two\nlines", b"x\r\ntwo\nlines\nlast"),
        (b"\xff\xfe = 1\n", "= 1", "= 2", b"\xff\xfe = 2\n"),
        ("naïve = 'é'\n".encode(), "'é'", "'è'", "naïve = 'è'\n".encode()),
        (b"a\x0cb\nc\n", "c", "d", b"a\x0cb\nd\n"),
    ],
)
def test_replace_text_keeps_what_it_does_not_name(
    content: bytes, old: str, new: str, expected: bytes
) -> None:
    assert replace_text(content, old, new).content == expected


def test_replace_text_reports_the_lines_it_wrote() -> None:
    edit = replace_text(b"a\nb\nc\nd\n", "b\nc", "x\ny\nz")
    assert (edit.start, edit.end) == (2, 4)
    gone = replace_text(b"a\nb\nc\n", "b\n", "")
    assert (gone.start, gone.end) == (2, 1)


def test_replace_text_refuses_several_matches_and_names_their_lines() -> None:
    with pytest.raises(ToolCallError, match=r"found 2 times \(lines 1, 3\)"):
        replace_text(b"x = 1\ny = 2\nx = 1\n", "x = 1", "x = 3")


def test_replace_text_shows_the_nearest_lines() -> None:
    content = b"def f(a):\n    return a + 1\n\n\ndef g(b):\n    return b\n"
    with pytest.raises(ToolCallError, match=r"Nearest:\n2\|    return a \+ 1"):
        replace_text(content, "    return a - 1", "    return a")
    with pytest.raises(ToolCallError, match="only the spaces differ"):
        replace_text(content, "return  b", "return a")
    with pytest.raises(ToolCallError, match="view it and copy"):
        replace_text(content, "zzzzqqqq", "a")


@pytest.mark.parametrize(("old", "new"), [("", "x"), ("a", "a"), ("a\n", "a\r\n")])
def test_replace_text_refuses_edits_without_effect(old: str, new: str) -> None:
    with pytest.raises(ToolCallError):
        replace_text(b"a\r\nb\r\n", old, new)


@pytest.mark.parametrize(
    ("content", "start", "end", "text", "expected"),
    [
        (b"a\nb\nc\n", 2, 2, "B", b"a\nB\nc\n"),
        (b"a\nb\nc\n", 2, 2, "B\n", b"a\nB\nc\n"),
        (b"a\nb\nc\n", 2, 3, "x\ny\nz", b"a\nx\ny\nz\n"),
        (b"a\nb\nc\n", 2, 2, "", b"a\nc\n"),
        (b"a\nb\nc\n", 2, 2, "\n", b"a\n\nc\n"),
        (b"a\nb\n", 2, 1, "new", b"a\nnew\nb\n"),
        (b"a\nb\n", 3, 2, "end", b"a\nb\nend\n"),
        (b"a\nb", 3, 2, "end", b"a\nb\nend"),
        (b"a\nb", 2, 2, "c", b"a\nc"),
        (b"a\nb", 1, 1, "c", b"c\nb"),
        (b"a\r\nb\r\n", 1, 1, "x\ny", b"x\r\ny\r\nb\r\n"),
        (b"a\r\nb", 2, 2, "x\ny", b"a\r\nx\r\ny"),
        (b"", 1, 0, "first", b"first\n"),
    ],
)
def test_replace_lines(content: bytes, start: int, end: int, text: str, expected: bytes) -> None:
    edit = replace_lines(content, start, end, text)
    assert edit.content == expected
    written = text.removesuffix("\n").split("\n") if text else []
    assert edit.end - edit.start + 1 == len(written)
    shown = number_lines(edit.content, edit.start, edit.end).split("\n") if written else []
    assert [line.split("|", 1)[1] for line in shown] == written


@pytest.mark.parametrize(("start", "end"), [(0, 1), (4, 4), (1, 9), (3, 1)])
def test_replace_lines_refuses_ranges_outside(start: int, end: int) -> None:
    with pytest.raises(ToolCallError, match="lines"):
        replace_lines(b"a\nb\n", start, end, "x")


def test_replace_lines_refuses_an_edit_without_effect() -> None:
    with pytest.raises(ToolCallError, match="nothing would change"):
        replace_lines(b"a\nb\n", 1, 1, "a")


@pytest.mark.parametrize("content", [b"a\nb\n\nc\n", b"a\nb\n\nc", b"\n", b"7|x\n"])
@pytest.mark.parametrize("last", ["", "\n"])
def test_lines_as_view_shows_them_can_be_written_back(content: bytes, last: str) -> None:
    shown = number_lines(content) + last
    text = without_numbers(shown, 1)
    end = shown.rstrip("\n").count("\n") + 1
    assert replace_lines(b"x\n", 1, 1, text).content.rstrip(b"\n") == content.rstrip(b"\n")
    assert text.count("\n") == end - 1 + len(last)


def test_number_lines() -> None:
    assert number_lines(b"a\r\nb\n\nc") == "1|a\n2|b\n3|\n4|c"
    assert number_lines(b"a\nb\nc\n", 2, 9) == "2|b\n3|c"
    assert number_lines(b"") == "(empty file)"
    with pytest.raises(ToolCallError, match="lines 1 to 2"):
        number_lines(b"a\nb\n", 3)
    with pytest.raises(ToolCallError, match="before start"):
        number_lines(b"a\nb\n", 2, 1)
    with pytest.raises(ToolCallError, match="binary"):
        number_lines(b"a\0b")
