"""Git-style diffs of a tree against its base, as bytes, made without git.

Host git is never run on what an agent wrote: a repository can name programs that git starts
(``core.fsmonitor``), and the agent's commits or index would decide what counts as changed. Lines end at
``\\n`` only, so that ``\\r\\n`` and lone ``\\r`` survive, and a missing last newline is marked as git does.
"""

from __future__ import annotations

import difflib
import hashlib
import itertools
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Mode = Literal["100644", "100755", "120000"]
_BASE_MODE: Mode = "100644"
_CONTEXT = 3
_MAX_WORK = 1_000_000  # lines and pairs of equal lines looked at for one file: half a second
_ESCAPES = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 34: '"', 92: "\\"}

_Opcode = tuple[bool, int, int, int, int]  # (equal, a_start, a_end, b_start, b_end)


@dataclass(frozen=True, slots=True)
class Change:
    """One path that differs from the base.

    Attributes:
        path: relative, POSIX; bytes that are not UTF-8 as surrogate escapes.
        mode: as git writes it; None if the file was deleted.
        content: new content (of a link: its target), or None where it is deleted or too large to show.
    """

    path: str
    mode: Mode | None
    content: bytes | None


def tree_diff(base: Mapping[str, bytes], changes: Iterable[Change]) -> bytes:
    """A unified diff in git's format; empty if nothing changed.

    Args:
        base: every file of the base tree; each has mode 100644.
        changes: what differs from it.
    """
    return b"".join(_stanzas(base, change) for change in changes)


def file_diff(path: str, old: bytes, new: bytes) -> bytes:
    """The diff of one regular file; empty if the contents are equal."""
    return _stanza(path, (_BASE_MODE, old), (_BASE_MODE, new)) if old != new else b""


_Side = tuple[Mode, bytes | None]  # mode, and content or None where it is too large to show


def _stanzas(base: Mapping[str, bytes], change: Change) -> bytes:
    old: _Side | None = (_BASE_MODE, base[change.path]) if change.path in base else None
    if change.mode is None:
        return _stanza(change.path, old, None) if old else b""
    new: _Side = (change.mode, change.content)
    if old and change.mode == "120000":  # git writes a change of type as a removal and an addition
        return _stanza(change.path, old, None) + _stanza(change.path, None, new)
    return _stanza(change.path, old, new) if old != new else b""


def _stanza(path: str, old: _Side | None, new: _Side | None) -> bytes:
    name_a, name_b = _quoted("a/" + path), _quoted("b/" + path)
    lines = [b"diff --git %s %s\n" % (name_a, name_b)]
    if old is None and new is not None:
        lines.append(b"new file mode %s\n" % new[0].encode())
    elif new is None and old is not None:
        lines.append(b"deleted file mode %s\n" % old[0].encode())
    elif old and new and old[0] != new[0]:
        lines.append(b"old mode %s\nnew mode %s\n" % (old[0].encode(), new[0].encode()))
    before = old[1] if old else b""
    after = new[1] if new else b""
    if old and new and before == after and before is not None:
        return b"".join(lines)
    if before is not None and after is not None:
        suffix = b" " + old[0].encode() if old and new and old[0] == new[0] else b""
        hashes = (_blob_hash(old and before), _blob_hash(new and after))
        lines.append(b"index %s..%s%s\n" % (*hashes, suffix))
    label_a = name_a if old else b"/dev/null"
    label_b = name_b if new else b"/dev/null"
    if before is None or after is None or _is_binary(before) or _is_binary(after):
        lines.append(b"Binary files %s and %s differ\n" % (label_a, label_b))
    elif before != after:
        tab = b"\t" if " " in path else b""  # tells readers where a name with a space ends
        lines.append(b"--- %s%s\n" % (label_a, tab if old else b""))
        lines.append(b"+++ %s%s\n" % (label_b, tab if new else b""))
        lines.extend(_hunks(_lines(before), _lines(after)))
    return b"".join(lines)


def _blob_hash(content: bytes | None) -> bytes:
    if content is None:
        return b"0000000"
    blob = b"blob %d\0%s" % (len(content), content)
    return hashlib.sha1(blob, usedforsecurity=False).hexdigest()[:7].encode()


def _is_binary(content: bytes) -> bool:
    return b"\0" in content[:8000]  # git's rule


def _lines(content: bytes) -> list[bytes]:
    lines = content.split(b"\n")
    last = lines.pop()
    return [line + b"\n" for line in lines] + ([last] if last else [])


def _hunks(a: Sequence[bytes], b: Sequence[bytes]) -> Iterator[bytes]:
    for group in _grouped(_opcodes(a, b)):
        a_start, a_end = group[0][1], group[-1][2]
        b_start, b_end = group[0][3], group[-1][4]
        yield b"@@ -%s +%s @@\n" % (_range(a_start, a_end), _range(b_start, b_end))
        for equal, i1, i2, j1, j2 in group:
            if equal:
                yield from _marked(b" ", a[i1:i2])
            else:
                yield from _marked(b"-", a[i1:i2])
                yield from _marked(b"+", b[j1:j2])


def _marked(mark: bytes, lines: Sequence[bytes]) -> Iterator[bytes]:
    for line in lines:
        yield mark + line
        if not line.endswith(b"\n"):
            yield b"\n\\ No newline at end of file\n"


def _range(start: int, end: int) -> bytes:
    count = end - start
    first = start + 1 if count else start  # an empty range is named by the line before it
    return b"%d" % first if count == 1 else b"%d,%d" % (first, count)


def _opcodes(a: Sequence[bytes], b: Sequence[bytes]) -> list[_Opcode]:
    """Runs of equal and unequal lines, in turns; equal ends are cut off before the costly comparison."""
    shorter = min(len(a), len(b))
    head = next((i for i in range(shorter) if a[i] != b[i]), shorter)
    rest = shorter - head
    tail = next((i for i in range(rest) if a[-1 - i] != b[-1 - i]), rest)
    middle_a, middle_b = a[head : len(a) - tail], b[head : len(b) - tail]
    blocks = [(i + head, j + head, size) for i, j, size in _equal_blocks(middle_a, middle_b)]
    result: list[_Opcode] = []
    a_end = b_end = 0
    for i, j, size in [(0, 0, head), *blocks, (len(a) - tail, len(b) - tail, tail)]:
        if a_end < i or b_end < j:
            result.append((False, a_end, i, b_end, j))
        elif size and result:  # goes on where the last run of equal lines ends
            _, i, _, j, _ = result.pop()
            size += a_end - i
        a_end, b_end = i + size, j + size
        if size:
            result.append((True, i, a_end, j, b_end))
    return result


def _equal_blocks(a: Sequence[bytes], b: Sequence[bytes]) -> list[tuple[int, int, int]]:
    """Blocks of equal lines (start in ``a``, in ``b``, length), in order, found in bounded time.

    As ``SequenceMatcher.get_matching_blocks``, whose time is quadratic where many short blocks
    are equal: the longest block first, then what lies before and after it. Parts that there is no time
    left for count as unequal throughout; the diff is right all the same, only longer.
    """
    counts = Counter(b)
    costs = list(itertools.accumulate((1 + counts[line] for line in a), initial=0))
    if not len(a) < costs[-1] <= _MAX_WORK:  # no line is in both, or too many are
        return []
    matcher = difflib.SequenceMatcher(None, a, b, autojunk=False)
    blocks: list[tuple[int, int, int]] = []
    left = _MAX_WORK
    parts = [(0, len(a), 0, len(b))]
    while parts:
        a_start, a_end, b_start, b_end = parts.pop()
        cost = costs[a_end] - costs[a_start]
        if cost > left or a_start == a_end or b_start == b_end:
            continue
        left -= cost
        i, j, size = matcher.find_longest_match(a_start, a_end, b_start, b_end)
        if size:
            blocks.append((i, j, size))
            parts.append((a_start, i, b_start, j))
            parts.append((i + size, a_end, j + size, b_end))
    return sorted(blocks)


def _grouped(opcodes: Sequence[_Opcode]) -> Iterator[list[_Opcode]]:
    """Hunks: changes with up to three equal lines around them, apart where more lie between."""
    group: list[_Opcode] = []
    for index, (equal, i1, i2, j1, j2) in enumerate(opcodes):
        if not equal:
            group.append((False, i1, i2, j1, j2))
            continue
        length = i2 - i1
        lead = min(_CONTEXT, length)
        if not group:
            if index + 1 < len(opcodes):
                group.append((True, i2 - lead, i2, j2 - lead, j2))
        elif index + 1 == len(opcodes):
            group.append((True, i1, i1 + lead, j1, j1 + lead))
        elif length <= 2 * _CONTEXT:
            group.append((True, i1, i2, j1, j2))
        else:
            group.append((True, i1, i1 + _CONTEXT, j1, j1 + _CONTEXT))
            yield group
            group = [(True, i2 - _CONTEXT, i2, j2 - _CONTEXT, j2)]
    if any(not opcode[0] for opcode in group):
        yield group


def _quoted(name: str) -> bytes:
    """A path as git prints it: quoted where a byte is unusual."""
    raw = os.fsencode(name)
    if all(32 <= byte < 127 and byte not in b'"\\' for byte in raw):
        return raw
    text = []
    for byte in raw:
        if byte in _ESCAPES:
            text.append("\\" + _ESCAPES[byte])
        elif byte < 32 or byte >= 127:
            text.append(f"\\{byte:03o}")
        else:
            text.append(chr(byte))
    return f'"{"".join(text)}"'.encode()
