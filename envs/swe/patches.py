"""Unified diffs as bytes: parse, filter, apply. Pure, and exact to the byte.

Reads what git, ``diff -u`` and the sandboxes write. Rejected: ``git apply`` (host git must never see an
agent's files) and text-based diff libraries (they decode, and a file may hold ``\\r\\n``, form feeds and
bytes that are no UTF-8). What a text diff cannot carry (binary files, links, submodules) is dropped and
named.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from agentic_gym.envs.swe.placing import Placer
from agentic_gym.errors import PatchError

_HUNK = re.compile(rb"^@@ -(\d{1,12})(?:,(\d{1,12}))? \+(\d{1,12})(?:,(\d{1,12}))? @@")
_ESCAPES = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92}
_REGULAR_MODES = ("100644", "100755", "100664")


@dataclass(frozen=True, slots=True)
class Hunk:
    """One hunk: the lines it expects and the lines it leaves, with their endings.

    Attributes:
        start: 1-based first old line; for an insertion the line after which it goes.
        old: context and removed lines.
        new: context and added lines.
    """

    start: int
    old: tuple[bytes, ...]
    new: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class FilePatch:
    """The change of one file.

    Attributes:
        old_path: path before, or None for a new file.
        new_path: path after, or None for a deleted file.
        hunks: in order of the file.
        binary: a stanza without text hunks for a binary file.
        copy: the old path stays.
        mode: new mode, where the diff names one ("120000" is a link).
    """

    old_path: str | None
    new_path: str | None
    hunks: tuple[Hunk, ...] = ()
    binary: bool = False
    copy: bool = False
    mode: str | None = None

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths it touches, each once."""
        return tuple(dict.fromkeys(path for path in (self.old_path, self.new_path) if path))

    @property
    def is_text(self) -> bool:
        """Whether it changes a regular text file, which is all that can be applied."""
        return not self.binary and (self.mode is None or self.mode in _REGULAR_MODES)


def normalise(patch: bytes | str | None) -> bytes:
    """The patch as bytes with one final newline; empty if it holds only white space.

    >>> normalise(None), normalise("\\n"), normalise(b"--- a\\n+++ b")
    (b'', b'', b'--- a\\n+++ b\\n')

    Raises:
        PatchError: a code point of the text stands for no bytes.
    """
    if patch is None:
        return b""
    try:
        raw = patch.encode("utf-8", "surrogateescape") if isinstance(patch, str) else patch
    except UnicodeEncodeError as error:
        raise PatchError(f"the patch is no text: {error}") from None
    if not raw.strip():
        return b""
    return raw if raw.endswith(b"\n") else raw + b"\n"


def parse_patch(patch: bytes | str | None) -> tuple[FilePatch, ...]:
    """Parses a unified diff; an empty one gives ``()``. Text between the files is ignored.

    Raises:
        PatchError: it is not a diff, a hunk is cut short, or a path leads out of the tree.
    """
    raw = normalise(patch)
    if not raw:
        return ()
    reader = _Reader(raw)
    files = tuple(reader.files())
    if not files:
        raise PatchError(
            "the patch has text but no '--- ' and '+++ ' lines: it is not a unified diff"
        )
    return files


def filter_patch(
    patches: Sequence[FilePatch], protected: Callable[[str], bool]
) -> tuple[tuple[FilePatch, ...], tuple[str, ...], tuple[str, ...]]:
    """Splits off what may not or cannot be applied.

    Returns:
        The patches kept; paths dropped because they are protected; paths dropped because they are
        binary, a link or a submodule.
    """
    kept: list[FilePatch] = []
    refused: dict[str, None] = {}
    unsupported: dict[str, None] = {}
    for patch in patches:
        if any(protected(path) for path in patch.paths):
            refused.update(dict.fromkeys(path for path in patch.paths if protected(path)))
        elif not patch.is_text:
            unsupported.update(dict.fromkeys(patch.paths))
        else:
            kept.append(patch)
    return tuple(kept), tuple(refused), tuple(unsupported)


def apply_patch(files: Mapping[str, bytes], patches: Sequence[FilePatch]) -> dict[str, bytes]:
    """The tree after the patches; the given one is left as it is.

    A hunk whose line numbers are off is applied at the nearest place where its lines stand.

    Raises:
        PatchError: a file or the lines of a hunk are not there, a new file exists already, or a patch
            is binary; the message names the file and the hunk. Or hunks are so many and so far off that
            it would take too long to find their places.
    """
    tree = dict(files)
    placer = Placer()
    for patch in patches:
        if not patch.is_text:
            raise PatchError(f"{patch.paths[0]}: only text changes of regular files can be applied")
        if patch.old_path is None:
            if patch.new_path in tree:
                raise PatchError(f"{patch.new_path}: the patch creates it, but it exists")
            content = b""
        elif patch.old_path in tree:
            content = tree[patch.old_path]
        else:
            raise PatchError(f"{patch.old_path}: the patch changes it, but it does not exist")
        content = _apply_hunks(content, patch, placer)
        if patch.old_path is not None and not patch.copy:
            del tree[patch.old_path]
        if patch.new_path is not None:
            if patch.new_path in tree:
                raise PatchError(f"{patch.new_path}: the patch moves a file onto it, but it exists")
            tree[patch.new_path] = content
    return tree


def refuse_clashes(files: Mapping[str, bytes]) -> None:
    """Raises ``PatchError`` where a path of the tree is a file and, for another path, a folder."""
    for path in files:
        end = path.rfind("/")
        while end > 0:
            if path[:end] in files:
                raise PatchError(f"{path[:end]} is a file, so {path} cannot be there")
            end = path.rfind("/", 0, end)


def _apply_hunks(content: bytes, patch: FilePatch, placer: Placer) -> bytes:
    lines = _split(content)
    out: list[bytes] = []
    taken = 0
    shift = 0
    for number, hunk in enumerate(patch.hunks, 1):
        wanted = (hunk.start if not hunk.old else hunk.start - 1) + shift
        at = placer.locate(lines, hunk.old, wanted, taken)
        if at is None:
            raise PatchError(
                f"{patch.paths[0]}: hunk {number} does not apply: line {hunk.start} is not "
                f"{_shown(hunk.old)}"
            )
        shift += at - wanted
        out += lines[taken:at]
        out += hunk.new
        taken = at + len(hunk.old)
    out += lines[taken:]
    return b"".join(out)


def _shown(lines: tuple[bytes, ...]) -> str:
    return repr(lines[0].decode("utf-8", "replace")[:80]) if lines else "there"


def _split(content: bytes) -> list[bytes]:
    return re.findall(rb"[^\n]*\n|[^\n]+", content)


class _Reader:
    """A line reader over one diff; ``files`` yields its file patches."""

    def __init__(self, raw: bytes) -> None:
        self._lines = _split(raw)
        self._at = 0

    def files(self) -> Iterator[FilePatch]:
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.startswith(b"diff --git "):
                yield self._git_file()
            elif self._at_plain_header():
                yield self._with_hunks(FilePatch(None, None))
            else:
                self._at += 1

    def _at_plain_header(self) -> bool:
        return (
            self._lines[self._at].startswith(b"--- ")
            and self._at + 1 < len(self._lines)
            and self._lines[self._at + 1].startswith(b"+++ ")
        )

    def _git_file(self) -> FilePatch:
        old, new = _git_header_paths(self._lines[self._at][len(b"diff --git ") :])
        patch = FilePatch(old, new)
        self._at += 1
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.startswith((b"diff --git ", b"@@ ")):
                break
            if self._at_plain_header():
                return self._with_hunks(patch)
            patch = _extended_header(patch, line)
            self._at += 1
        return _checked(patch)

    def _with_hunks(self, patch: FilePatch) -> FilePatch:
        old, new = _header_paths(self._lines[self._at][4:], self._lines[self._at + 1][4:])
        moved = None not in (patch.old_path, patch.new_path) and patch.old_path != patch.new_path
        if not moved:
            patch = replace(patch, old_path=old, new_path=new)
        self._at += 2
        hunks: list[Hunk] = []
        while self._at < len(self._lines) and self._lines[self._at].startswith(b"@@ "):
            hunks.append(self._hunk())
        return _checked(replace(patch, hunks=tuple(hunks)))

    def _hunk(self) -> Hunk:
        header = self._lines[self._at]
        match = _HUNK.match(header)
        if match is None:
            raise PatchError(f"malformed hunk header {header.decode('utf-8', 'replace').strip()!r}")
        start = int(match[1])
        num_old = int(match[2]) if match[2] is not None else 1
        num_new = int(match[4]) if match[4] is not None else 1
        self._at += 1
        old: list[bytes] = []
        new: list[bytes] = []
        while len(old) < num_old or len(new) < num_new:
            self._body_line(old, new, header)
        if len(old) > num_old or len(new) > num_new:
            raise PatchError(
                f"hunk {header.decode('utf-8', 'replace').strip()!r} has too many lines"
            )
        return Hunk(start, tuple(old), tuple(new))

    def _body_line(self, old: list[bytes], new: list[bytes], header: bytes) -> None:
        if self._at >= len(self._lines):
            raise PatchError(
                f"the patch ends in the middle of hunk {header.decode('utf-8', 'replace').strip()!r}"
            )
        line = self._lines[self._at]
        self._at += 1
        # An editor may have stripped the blank that marks an empty context line.
        kind, body = (b" ", line) if line in (b"\n", b"\r\n") else (line[:1], line[1:])
        if kind not in (b" ", b"-", b"+"):
            raise PatchError(
                f"unexpected line in a hunk: {line.decode('utf-8', 'replace').strip()!r}"
            )
        if self._at < len(self._lines) and self._lines[self._at].startswith(b"\\ "):
            body = body.removesuffix(b"\n")
            self._at += 1
        if kind != b"+":
            old.append(body)
        if kind != b"-":
            new.append(body)


def _extended_header(patch: FilePatch, line: bytes) -> FilePatch:
    text = line.decode("utf-8", "surrogateescape").rstrip("\n")
    key, _, value = text.partition(" ")
    if text.startswith("new file mode "):
        return replace(patch, old_path=None, mode=text.rsplit(" ", 1)[1])
    if text.startswith("deleted file mode "):
        return replace(patch, new_path=None, mode=text.rsplit(" ", 1)[1])
    if text.startswith("new mode "):
        return replace(patch, mode=text.rsplit(" ", 1)[1])
    if key == "index" and value.endswith((" 120000", " 160000")):
        return replace(patch, mode=value.rsplit(" ", 1)[1])
    if key in ("rename", "copy") and value.startswith(("from ", "to ")):
        side, _, name = value.partition(" ")
        path = _unquote(name)
        if side == "from":
            return replace(patch, old_path=path, copy=key == "copy")
        return replace(patch, new_path=path, copy=key == "copy")
    if text.startswith(("Binary file", "GIT binary patch")):
        return replace(patch, binary=True)
    return patch


def _checked(patch: FilePatch) -> FilePatch:
    if not patch.paths:
        raise PatchError("a file of the patch has no path")
    for path in patch.paths:
        pure = PurePosixPath(path)
        unclean = not pure.parts or pure.is_absolute() or ".." in pure.parts or "\0" in path
        if unclean or str(pure) != path:
            raise PatchError(f"the patch names {path!r}, which is not a clean path inside the tree")
    return patch


def _header_paths(old: bytes, new: bytes) -> tuple[str | None, str | None]:
    before, after = _header_name(old), _header_name(new)
    prefixed = before in (None, "") or before.startswith("a/")
    prefixed = prefixed and (after is None or after.startswith("b/"))
    if prefixed:
        before = before[2:] if before else before
        after = after[2:] if after else after
    return before, after


def _header_name(raw: bytes) -> str | None:
    text = raw.decode("utf-8", "surrogateescape").rstrip("\n")
    # A tab ends an unquoted name: a timestamp follows, or nothing where the name has blanks.
    name = _unquote(text) if text.startswith('"') else text.split("\t")[0].rstrip("\r")
    return None if name == "/dev/null" else name


def _git_header_paths(raw: bytes) -> tuple[str | None, str | None]:
    """Paths of a ``diff --git`` line; ambiguous ones are left to the lines that follow."""
    text = raw.decode("utf-8", "surrogateescape").rstrip("\r\n")
    if text.startswith('"'):
        end = _closing_quote(text)
        old, new = text[: end + 1], text[end + 2 :]
    elif text.endswith('"') and ' "' in text:
        at = text.index(' "')
        old, new = text[:at], text[at + 1 :]
    else:
        middle = len(text) // 2
        old, new = text[:middle], text[middle + 1 :]
        if text[middle : middle + 1] != " " or old[2:] != new[2:]:
            return None, None
    before, after = _unquote(old), _unquote(new)
    if before.startswith("a/") and after.startswith("b/"):
        before, after = before[2:], after[2:]
    return before, after


def _closing_quote(text: str) -> int:
    match = re.match(r'"(?:[^"\\]|\\.)*"', text)
    if match is None:
        raise PatchError(f"unterminated quoted path {text[:80]!r}")
    return match.end() - 1


def _unquote(name: str) -> str:
    """Undoes git's C-style quoting: ``"a/\\303\\251"`` is ``a/é``."""
    if not name.startswith('"'):
        return name
    body = name[1 : _closing_quote(name)]

    def plain(match: re.Match[str]) -> str:
        code = match[1]
        value = int(code, 8) if code[0] in "01234567" else _ESCAPES.get(code, ord(code) & 0xFF)
        return chr(value & 0xFF)

    octets = re.sub(
        r"\\([0-7]{1,3}|.)", plain, body.encode("utf-8", "surrogateescape").decode("latin-1")
    )
    return octets.encode("latin-1").decode("utf-8", "surrogateescape")
