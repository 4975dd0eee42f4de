"""Does a source with one line changed still compile? Answered from the statement around the line.

A thousand candidates a module are asked about, and compiling the whole module for each took most of the
time. Statements at the top level compile or fail by themselves, so the one around the line is enough.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence

from agentic_gym.envs.swe.injection.tree import LineChange

_CONTINUES = re.compile(r"\s|#|[)\]}]|(else|elif|except|finally)\b|$")


def compiles(source: str) -> bool:
    """Whether Python accepts the source."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            compile(source, "<source>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True


class LineChecker:
    """Answers for one source, given as its lines."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self.whole = compiles("\n".join(lines))
        blocks = _blocks(lines)
        broken = [block for block in blocks if not compiles(self._text(block))]
        # A text that spans lines at the top level may be cut apart: then the module is one block.
        if len(broken) != (0 if self.whole else 1):
            blocks = broken = [range(len(lines))]
        self._block_of = {number: block for block in blocks for number in block}
        self._broken = [] if self.whole else broken

    def can_compile(self, line: int) -> bool:
        """Whether a change of this line (from 1) alone may give a source that compiles."""
        return all(line - 1 in block for block in self._broken)

    def accepts(self, change: LineChange) -> bool:
        """Whether the source with this change compiles."""
        index = change.line - 1
        if not self.can_compile(change.line):
            return False
        block = self._block_of[index]
        before = self._lines[block.start : index]
        return compiles("\n".join([*before, change.after, *self._lines[index + 1 : block.stop]]))

    def _text(self, block: range) -> str:
        return "\n".join(self._lines[block.start : block.stop])


def _blocks(lines: Sequence[str]) -> list[range]:
    """Runs of lines that hold whole statements of the top level, decorators with what they decorate."""
    starts = [0]
    for number, line in enumerate(lines):
        decorated = lines[number - 1].startswith("@") if number else True
        if not _CONTINUES.match(line) and not decorated:
            starts.append(number)
    return [range(a, b) for a, b in zip(starts, [*starts[1:], len(lines)], strict=True)]
