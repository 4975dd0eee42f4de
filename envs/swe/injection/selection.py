"""Which of many bugs become tasks, and which of these are held out. Pure and deterministic.

Choices are random by a stable hash of what is chosen (SHA-256, never Python's seeded ``hash``), so that
a set does not change when modules are added, and builds are equal byte for byte.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from agentic_gym.envs.swe.injection.inject import Mutation


def stable_hash(*parts: object) -> int:
    """A hash that is the same in every process and on every machine.

    >>> stable_hash("roman", 3) == stable_hash("roman", 3) != stable_hash("roman", 4)
    True
    """
    text = "\0".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


class Balance:
    """Offers the mutations of one module in the order that keeps the accepted ones varied.

    The next one is of the operator that was offered least, on the line with the fewest accepted bugs;
    ties are broken by the stable hash.

    Args:
        module: name of the module; salts the hash.
        mutations: all that can be offered.
    """

    def __init__(self, module: str, mutations: Iterable[Mutation]) -> None:
        self._module = module
        self._left: dict[str, list[Mutation]] = {}
        for mutation in mutations:
            self._left.setdefault(mutation.operator, []).append(mutation)
        self._lines: Counter[int] = Counter()
        self._accepted: Counter[str] = Counter()
        self._offered: Counter[str] = Counter()

    def next(self) -> Mutation | None:
        """The next mutation to try, None when all were offered."""
        if not self._left:
            return None
        name = min(
            self._left,
            key=lambda op: (self._accepted[op], self._offered[op], stable_hash(self._module, op)),
        )
        group = self._left[name]
        chosen = min(
            group,
            key=lambda m: (self._lines[m.line], stable_hash(self._module, name, m.line, m.after)),
        )
        group.remove(chosen)
        if not group:
            del self._left[name]
        self._offered[name] += 1
        return chosen

    def accept(self, mutation: Mutation) -> None:
        """Records that the mutation became a task."""
        self._lines[mutation.line] += 1
        self._accepted[mutation.operator] += 1


def held_out_modules(modules: Sequence[str], count: int) -> frozenset[str]:
    """``count`` of the modules, by the stable hash."""
    return frozenset(sorted(modules, key=lambda name: stable_hash("module", name))[:count])


def split_lines(
    module: str, bugs_on: Mapping[str, int], shares: Mapping[str, float]
) -> dict[str, str]:
    """Gives every line of a module to one split, so that no line has bugs in two of them.

    Lines are told apart by their right text: two lines of a module that read the same stay together.

    Args:
        module: name of the module; salts the hash.
        bugs_on: right text of a line to the number of its bugs.
        shares: split to the share of the module's bugs that it gets, as nearly as whole lines allow;
            what is left over is "train".

    Returns:
        Right text of the line to its split.
    """
    order = sorted(bugs_on, key=lambda text: stable_hash("line", module, text))
    total = sum(bugs_on.values())
    split = dict.fromkeys(order, "train")
    for name, share in shares.items():
        wanted = share * total
        for text in order:
            # A line is taken if that brings the count nearer to what is wanted.
            if split[text] == "train" and bugs_on[text] / 2 <= wanted:
                split[text] = name
                wanted -= bugs_on[text]
    return split
