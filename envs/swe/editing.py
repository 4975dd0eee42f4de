"""Text edits of the tools, as pure functions over the content of one file.

Models read ``\\n``; files may hold ``\\r\\n``. The functions show the one and keep the other: what an edit
does not name stays byte for byte, the line ending of the edited place is kept, and so is a missing last
newline. Rejected: normalising on read and on write (it rewrites every line of a mixed file).
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from agentic_gym.env import clip_text
from agentic_gym.errors import IdleCallError, ToolCallError

_NEAREST_MAX_LINES = 4_000
"""Above this the search for a near match is left out: it compares every window of the file."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A changed file.

    Attributes:
        content: the new bytes.
        start: first line that the edit wrote, 1-based, in the new content.
        end: last line that it wrote; ``start - 1`` if it only deleted.
    """

    content: bytes
    start: int
    end: int


def decode(content: bytes) -> str:
    """Text of a file; bytes that are not UTF-8 become lone surrogates and survive :func:`encode`."""
    return content.decode("utf-8", "surrogateescape")


def encode(text: str) -> bytes:
    """Bytes of a text.

    Raises:
        ToolCallError: the text has code points that no file can hold.
    """
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        bad = text[error.start : error.start + 1]
        raise ToolCallError(
            f"the text holds {bad!a}, which is not a character: leave it out"
        ) from None


def split_lines(text: str) -> list[str]:
    """Lines with their endings, cut at ``\\n`` only (not at form feeds and the like, as git does).

    >>> split_lines("a\\r\\nb\\x0cc")
    ['a\\r\\n', 'b\\x0cc']
    """
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def number_lines(content: bytes, start: int | None = None, end: int | None = None) -> str:
    """Numbered lines ``start`` to ``end`` (1-based, inclusive; the whole file by default).

    >>> number_lines(b"x = 1\\r\\ny = 2", 2)
    '2|y = 2'

    Raises:
        ToolCallError: the range is empty or outside the file, or the file is binary.
    """
    if b"\0" in content:
        raise ToolCallError(f"the file is binary ({len(content)} bytes)")
    lines = split_lines(decode(content))
    first = 1 if start is None else start
    last = len(lines) if end is None else min(end, len(lines))
    if not lines and first == 1:
        return "(empty file)"
    if not 1 <= first <= len(lines):
        raise ToolCallError(f"start={first} is outside the file: it has lines 1 to {len(lines)}")
    if last < first:
        raise ToolCallError(f"end={last} is before start={first}")
    return "\n".join(
        f"{number}|{line.rstrip(chr(10)).rstrip(chr(13))}"
        for number, line in enumerate(lines[first - 1 : last], first)
    )


def without_numbers(text: str, start: int) -> str:
    """The text without the line numbers that ``view`` shows, if every line carries its own.

    >>> without_numbers("7|def f():\\n8|    pass\\n", 7), without_numbers("7|8", 3)
    ('def f():\\n    pass\\n', '7|8')
    """
    body = text.removesuffix("\n")
    lines = body.split("\n")
    marks = [f"{number}|" for number in range(start, start + len(lines))]
    if all(line.startswith(mark) for line, mark in zip(lines, marks, strict=True)):
        bare = (line.removeprefix(mark) for line, mark in zip(lines, marks, strict=True))
        return "\n".join(bare) + text[len(body) :]
    return text


def replace_text(content: bytes, old: str, new: str) -> Edit:
    """Replaces the one place where ``old`` stands.

    ``\\n`` in ``old`` also matches ``\\r\\n``; a last ``\\n`` in ``old`` also matches the end of a file that
    has no last newline. Line endings of ``new`` follow the place.

    Raises:
        ToolCallError: ``old`` is not there (the message shows the nearest lines) or not unique (it gives
            the lines).
        IdleCallError: nothing would change.
    """
    if not old:
        raise ToolCallError("old is empty: give the exact text to replace")
    if old == new:
        raise IdleCallError("old and new are the same: nothing would change")
    text = decode(content)
    spans = _find(text, old)
    if len(spans) > 1:
        numbers = ", ".join(str(_line_at(text, begin)) for begin, _ in spans[:8])
        raise ToolCallError(
            f"old is found {len(spans)} times (lines {numbers}): add surrounding lines to make it unique"
        )
    if not spans and old.endswith("\n") and not text.endswith("\n"):
        ending = [span for span in _find(text, old.removesuffix("\n")) if span[1] == len(text)]
        if ending:
            spans, new = ending, new.removesuffix("\n")
    if not spans:
        raise ToolCallError(_not_found(text, old))
    begin, stop = spans[0]
    fresh = _with_ending(new, _ending_at(text, begin))
    changed = text[:begin] + fresh + text[stop:]
    if changed == text:
        raise IdleCallError("the new text equals the old: nothing would change")
    start = _line_at(changed, begin)
    written = fresh[:-1] if fresh.endswith("\n") else fresh
    end = start + written.count("\n") if fresh else start - 1
    return Edit(encode(changed), start, end)


def replace_lines(content: bytes, start: int, end: int, text: str) -> Edit:
    """Replaces lines ``start`` to ``end`` (1-based, inclusive) with the lines of ``text``.

    ``end = start - 1`` inserts before ``start``; an empty ``text`` deletes. One newline at the end of
    ``text`` is optional.

    >>> replace_lines(b"a\\r\\nb", 2, 2, "c").content
    b'a\\r\\nc'

    Raises:
        ToolCallError: the range is outside the file.
        IdleCallError: nothing would change.
    """
    old = decode(content)
    lines = split_lines(old)
    if not 1 <= start <= len(lines) + 1:
        raise ToolCallError(f"start={start} is outside the file: it has lines 1 to {len(lines)}")
    if not start - 1 <= end <= len(lines):
        raise ToolCallError(
            f"end={end} does not fit start={start}: the file has {len(lines)} lines"
        )
    offset = sum(len(line) for line in lines[: start - 1])
    newline = _ending_at(old, offset)
    plain = text.replace("\r\n", "\n").removesuffix("\n")
    fresh = [line + newline for line in plain.split("\n")] if text else []
    head, tail = lines[: start - 1], lines[end:]
    unterminated = bool(lines) and not lines[-1].endswith("\n")
    if unterminated and not tail:
        if end < start and head:  # appended below a line that had no newline
            head = [*head[:-1], head[-1] + newline]
        if fresh:
            fresh[-1] = fresh[-1].removesuffix(newline)
    changed = "".join([*head, *fresh, *tail])
    if changed == old:
        raise IdleCallError("the new text equals the old: nothing would change")
    return Edit(encode(changed), start, start + len(fresh) - 1)


def _find(text: str, old: str) -> list[tuple[int, int]]:
    exact = [match.span() for match in re.finditer(re.escape(old), text)]
    if exact or "\n" not in old:
        return exact
    pattern = r"\r?\n".join(re.escape(line) for line in old.replace("\r\n", "\n").split("\n"))
    return [match.span() for match in re.finditer(pattern, text)]


def _line_at(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def _ending_at(text: str, offset: int) -> str:
    """Ending of the line at the offset; of the line before it where that one has none."""
    stop = text.find("\n", offset)
    if stop == -1:
        stop = text.rfind("\n", 0, offset)
    return "\r\n" if stop > 0 and text[stop - 1] == "\r" else "\n"


def _with_ending(text: str, newline: str) -> str:
    return text if newline == "\n" else re.sub(r"\r?\n", newline, text)


def _not_found(text: str, old: str) -> str:
    wanted = old.replace("\r\n", "\n").strip("\n").split("\n")
    lines = [line.rstrip("\r\n") for line in split_lines(text)]
    size = len(wanted)
    if not lines or len(lines) > _NEAREST_MAX_LINES or size > 60:
        return "old is not in the file: view it and copy the text exactly"
    windows = ["\n".join(lines[at : at + size]) for at in range(max(1, len(lines) - size + 1))]
    target = "\n".join(line.strip() for line in wanted)
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(target)
    best, best_ratio = -1, 0.4
    for at, window in enumerate(windows):
        matcher.set_seq1("\n".join(line.strip() for line in window.split("\n")))
        if matcher.real_quick_ratio() > best_ratio and matcher.quick_ratio() > best_ratio:
            ratio = matcher.ratio()
            if ratio > best_ratio:
                best, best_ratio = at, ratio
    if best < 0:
        return "old is not in the file: view it and copy the text exactly"
    shown = "\n".join(f"{best + 1 + k}|{line}" for k, line in enumerate(windows[best].split("\n")))
    hint = " (only the spaces differ)" if windows[best].split() == target.split() else ""
    return f"old is not in the file{hint}. Nearest:\n{clip_text(shown, 1_000)}"
