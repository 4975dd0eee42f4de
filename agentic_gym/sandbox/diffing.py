"""Git-style diffs of a tree against its base, as bytes, made without git.

Host git is never run on what an agent wrote: a repository can name programs that git starts
(``core.fsmonitor``), and the agent's commits or index would decide what counts as changed. Lines end at
``\\n`` only, so that ``\\r\\n`` and lone ``\\r`` survive, and a missing last newline is marked as git does.
"""

from __future__ import annotations

import difflib
import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Mode = Literal["100644", "100755", "120000"]
_BASE_MODE: Mode = "100644"
_CONTEXT = 3
_MAX_MATCHES = 1_000_000  # beyond, two files are not compared line by line: it would take too long
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
    """Runs of equal and unequal lines; equal ends are cut off before the costly comparison."""
    shorter = min(len(a), len(b))
    head = next((i for i in range(shorter) if a[i] != b[i]), shorter)
    rest = shorter - head
    tail = next((i for i in range(rest) if a[-1 - i] != b[-1 - i]), rest)
    middle_a, middle_b = a[head : len(a) - tail], b[head : len(b) - tail]
    result: list[_Opcode] = [(True, 0, head, 0, head)] if head else []
    if _comparable(middle_a, middle_b):
        matcher = difflib.SequenceMatcher(None, middle_a, middle_b, autojunk=False)
        for tag, i1, i2, j1, j2 in matcher.get_opcodes():
            result.append((tag == "equal", i1 + head, i2 + head, j1 + head, j2 + head))
    elif middle_a or middle_b:
        result.append((False, head, len(a) - tail, head, len(b) - tail))
    if tail:
        result.append((True, len(a) - tail, len(a), len(b) - tail, len(b)))
    return result


def _comparable(a: Sequence[bytes], b: Sequence[bytes]) -> bool:
    counts = Counter(b)
    return sum(counts[line] for line in a) <= _MAX_MATCHES


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
