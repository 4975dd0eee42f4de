"""Replicas that serve several versions at once: who serves what, and how many each version gets.

Source: DORA (arXiv 2604.26256). Replicas are shared out among versions in proportion to their work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from heapq import heapify, heapreplace


class Fleet:
    """Replicas of the engine.

    Args:
        versions: that each replica serves.

    Attributes:
        versions: that each replica serves, or served until it began to load.
        loading: replicas that were told to load newer weights, and have not yet.
        lent: replicas that help the trainer.
        serving: replicas that take trajectories, by version.
    """

    def __init__(self, versions: Mapping[int, int] | None = None) -> None:
        self.versions = dict(versions or {})
        self.loading: set[int] = set()
        self.lent: set[int] = set()
        self.serving: dict[int, list[int]] = {}
        self._update()

    def up(self, replica: int, version: int) -> None:
        """A replica has joined, or is back, and serves this version."""
        self.versions[replica] = version
        self.loading.discard(replica)
        self.lent.discard(replica)
        self._update()

    def down(self, replica: int) -> None:
        """A replica is gone."""
        self.versions.pop(replica, None)
        self.loading.discard(replica)
        self.lent.discard(replica)
        self._update()

    def load(self, replicas: Iterable[int]) -> None:
        """These are told to load newer weights."""
        self.loading.update(replicas)
        self._update()

    def loaded(self, replica: int, version: int) -> None:
        """A replica has loaded this version. One that is gone by now changes nothing."""
        if replica in self.versions:
            self.up(replica, version)

    def lend(self, replicas: Iterable[int]) -> None:
        """These help the trainer from now on."""
        self.lent.update(replicas)
        self._update()

    def recall(self) -> list[int]:
        """Those that helped the trainer generate again. Returns them, sorted."""
        recalled = sorted(self.lent)
        self.lent.clear()
        self._update()
        return recalled

    def _update(self) -> None:
        self.serving = {}
        for replica, version in sorted(self.versions.items()):
            if replica not in self.loading and replica not in self.lent:
                self.serving.setdefault(version, []).append(replica)


def share_out(work: Mapping[int, int], held: Mapping[int, int], newest: int) -> dict[int, int]:
    """How many replicas each version gets: in proportion to its work (R_w / sum R, DORA).

    Each version with work gets one; the newest gets one if one is left then, whatever its work. The others
    go, one by one, to the version with the most work for what it has (Webster's method: unlike rounding,
    no version loses a replica because there are more replicas or less work of others). A replica can only
    ever change to the newest version, so no other gets more than it holds, and the newest no less.

    Args:
        work: trajectories of each version that run or are about to.
        held: replicas that serve, or load, each version.
        newest: version; every other is older.

    Returns:
        Replicas of each version in ``held``, and of the newest; as many together as are held.

    >>> share_out({3: 10, 4: 30, 5: 20}, {3: 2, 4: 4}, newest=5)
    {3: 1, 4: 3, 5: 2}
    """
    shares = {v: int(work.get(v, 0) > 0) for v in held if v != newest}
    left = sum(held.values()) - sum(shares.values())
    shares[newest] = max(held.get(newest, 0), min(1, left))
    for _ in range(left - shares[newest]):
        growing = [v for v in shares if v == newest or shares[v] < held[v]]
        neediest = max(growing, key=lambda v: (work.get(v, 0) / (2 * shares[v] + 1), v))
        shares[neediest] += 1
    return shares


def least_first(loads: Mapping[int, int], size: int = 1) -> Iterator[int]:
    """Endless: the replica with the least load, which then has ``size`` more. Ties: the lower number.

    Args:
        loads: of at least one replica.
        size: what each replica takes when it is its turn.

    >>> from itertools import islice
    >>> list(islice(least_first({0: 3, 1: 0}, size=2), 4))
    [1, 1, 0, 1]
    """
    heap = [(load, replica) for replica, load in loads.items()]
    heapify(heap)
    while True:
        load, replica = heap[0]
        heapreplace(heap, (load + size, replica))
        yield replica
