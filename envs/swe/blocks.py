"""A Python file cut into short blocks: what a small model rewrites at a time. Pure.

A single line is hard to choose; a whole file is too much to write without a slip.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence

MAX_BLOCK_LINES = 8
_DEFINITION = re.compile(r"(def|class|async def)\b|@")


def definitions(lines: Sequence[str]) -> list[range]:
    """Indices of what comes before the first definition (perhaps nothing), then of each definition.

    Blank lines at the end of each are left out; decorators belong to what they decorate.

    >>> definitions(["import os", "", "def f():", "    pass", "", "@x", "def g():", "    pass"])
    [range(0, 1), range(2, 4), range(5, 8)]
    """
    starts = [
        index
        for index, line in enumerate(lines)
        if _DEFINITION.match(line) and not (index and lines[index - 1].startswith("@"))
    ]
    cuts = itertools.pairwise([0, *starts, len(lines)])
    return [_without_blank_end(lines, range(begin, end)) for begin, end in cuts]


def blocks(lines: Sequence[str], max_lines: int = MAX_BLOCK_LINES) -> list[range]:
    """Definitions, the long ones cut into equal pieces of at most ``max_lines``; empty ones left out.

    >>> blocks(["def f():", *["    pass"] * 9], 4)
    [range(0, 4), range(4, 7), range(7, 10)]
    """
    found: list[range] = []
    for whole in definitions(lines):
        count = math.ceil(len(whole) / max_lines)
        size, larger = divmod(len(whole), count or 1)
        begin = whole.start
        for number in range(count):
            end = begin + size + (number < larger)
            found.append(range(begin, end))
            begin = end
    return found


def _without_blank_end(lines: Sequence[str], part: range) -> range:
    end = part.stop
    while end > part.start and not lines[end - 1].strip():
        end -= 1
    return range(part.start, end)
