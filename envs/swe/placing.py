"""Where the lines of a hunk stand in a file whose line numbers may be off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agentic_gym.errors import PatchError

_MAX_STEPS = 1_000_000  # places looked at and lines compared: a quarter of a second


class Placer:
    """Finds the places of one patch's hunks, within a budget for all of them together.

    Hunks that stand where they say cost nothing. Without the budget a patch of many hunks whose numbers are
    far off would take time quadratic in its size, and an agent may write one on purpose.
    """

    def __init__(self) -> None:
        self._left = _MAX_STEPS

    def locate(
        self, lines: list[bytes], old: Sequence[bytes], wanted: int, lowest: int
    ) -> int | None:
        """Index of the place nearest to ``wanted``, from ``lowest`` on; the upper of two; or None.

        Args:
            lines: of the file.
            old: lines to find; nothing is found only where it is wanted.
            wanted: index to begin at; may be outside of the file.
            lowest: where the last hunk ended.

        Raises:
            PatchError: the budget is spent.
        """
        expected, size = list(old), len(old)
        highest = len(lines) - size
        if lowest <= wanted <= highest and lines[wanted : wanted + size] == expected:
            return wanted
        if not expected:
            return None
        for at in _outwards(wanted, lowest, highest):
            self._left -= 1
            if lines[at] == expected[0]:
                self._left -= size
                if lines[at : at + size] == expected:
                    return at
            if self._left < 0:
                raise PatchError(
                    "too many hunks stand far from the lines that they name: give the right numbers"
                )
        return None


def _outwards(middle: int, lowest: int, highest: int) -> Iterator[int]:
    """The numbers of a range by their distance from one that may lie outside.

    >>> tuple(_outwards(2, 0, 3)), tuple(_outwards(9, 0, 2)), tuple(_outwards(-9, 0, 2))
    ((2, 1, 3, 0), (2, 1, 0), (0, 1, 2))
    """
    below, above = min(middle, highest), max(middle + 1, lowest)
    while below >= lowest or above <= highest:
        if above > highest or (below >= lowest and middle - below <= above - middle):
            yield below
            below -= 1
        else:
            yield above
            above += 1
