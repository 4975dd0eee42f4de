"""Replicas that serve several versions at once: who serves what and runs how much, and who gets what share.

A schedule asks at every event for the replica of a version that runs least, or most, or nothing. To look
at all of them was too slow for a thousand replicas and a million events: here those of each version stand
in order of their load, and one whose load has changed is moved to its new place when somebody asks next.

Source: DORA (arXiv 2604.26256). Replicas are shared out among versions in proportion to their work.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping

from agentic_gym.trainers.schedules.groups import GroupBook

Ranked = list[tuple[int, int]]
"""Replicas as (trajectories that it runs, its number), in this order."""


class Fleet:
    """Replicas of the engine.

    A change costs a search in a sorted list and a shift of a part of it. Asking costs that for each
    replica whose load has changed since.

    Args:
        book: knows what each replica runs. A book serves one fleet.
        versions: that each replica serves.

    Attributes:
        versions: that each replica serves, or served until it began to load; in the order in which they
            joined.
        loading: replicas that were told to load newer weights, and have not yet.
        lent: replicas that help the trainer.
    """

    def __init__(self, book: GroupBook, versions: Mapping[int, int] | None = None) -> None:
        self.versions = dict(versions or {})
        self.loading: set[int] = set()
        self.lent: set[int] = set()
        self._book = book
        self._serving: dict[int, Ranked] = {}
        self._work: dict[int, int] = {}
        self._places: dict[int, tuple[int, int]] = {}  # version and load by which each is ranked
        self._rank(self.versions)

    # ---- what there is ---------------------------------------------------------------------------

    @property
    def serving(self) -> Mapping[int, Ranked]:
        """Replicas that take trajectories, by version; the one that runs least first."""
        self._look()
        return self._serving

    @property
    def work(self) -> Mapping[int, int]:
        """Trajectories that run on these, by version."""
        self._look()
        return self._work

    def emptiest(self, version: int) -> int:
        """The replica of a version that is served that runs least. Ties: the lower number."""
        return self.serving[version][0][1]

    def idle(self, version: int) -> list[int]:
        """Replicas of this version that run nothing, by number."""
        ranked = self.serving.get(version, [])
        return [replica for _, replica in ranked[: bisect_left(ranked, (1, 0))]]

    def by_number(self) -> dict[int, list[int]]:
        """Replicas that take trajectories, by version, in the order of their numbers. Looks at all."""
        numbers: dict[int, list[int]] = {}
        for replica, version in sorted(self.versions.items()):
            if self._serves(replica):
                numbers.setdefault(version, []).append(replica)
        return numbers

    # ---- what happens ----------------------------------------------------------------------------

    def up(self, replica: int, version: int) -> None:
        """A replica has joined, or is back, and serves this version."""
        self.versions[replica] = version
        self.loading.discard(replica)
        self.lent.discard(replica)
        self._rank([replica])

    def down(self, replica: int) -> None:
        """A replica is gone."""
        self.versions.pop(replica, None)
        self.loading.discard(replica)
        self.lent.discard(replica)
        self._rank([replica])

    def load(self, replicas: Iterable[int]) -> None:
        """These are told to load newer weights."""
        replicas = list(replicas)
        self.loading.update(replicas)
        self._rank(replicas)

    def loaded(self, replica: int, version: int) -> None:
        """A replica has loaded this version. One that is gone by now changes nothing."""
        if replica in self.versions:
            self.up(replica, version)

    def lend(self, replicas: Iterable[int]) -> None:
        """These help the trainer from now on."""
        replicas = list(replicas)
        self.lent.update(replicas)
        self._rank(replicas)

    def recall(self) -> list[int]:
        """Those that helped the trainer generate again. Returns them, sorted."""
        recalled = sorted(self.lent)
        self.lent.clear()
        self._rank(recalled)
        return recalled

    # ---- ranking ---------------------------------------------------------------------------------

    def _serves(self, replica: int) -> bool:
        known = replica in self.versions
        return known and replica not in self.loading and replica not in self.lent

    def _look(self) -> None:
        if self._book.touched:
            self._rank(self._book.touched)
            self._book.touched.clear()

    def _rank(self, replicas: Iterable[int]) -> None:
        """Puts these where their version and load say, or takes them out."""
        running_on = self._book.running_on
        for replica in replicas:
            if (place := self._places.pop(replica, None)) is not None:
                version, load = place
                ranked = self._serving[version]
                del ranked[bisect_left(ranked, (load, replica))]
                self._work[version] -= load
                if not ranked:
                    del self._serving[version], self._work[version]
            if self._serves(replica):
                version, load = self.versions[replica], len(running_on.get(replica, ()))
                self._places[replica] = version, load
                insort(self._serving.setdefault(version, []), (load, replica))
                self._work[version] = self._work.get(version, 0) + load


def share_out(
    work: Mapping[int, int],
    held: Mapping[int, int],
    newest: int,
    needed: Mapping[int, int] | None = None,
) -> dict[int, int]:
    """How many replicas each version gets: in proportion to its work (R_w / sum R, DORA).

    Each version with work gets one; the newest gets one if one is left then, whatever its work. The others
    go, one by one, to the version with the most work for what it has (Webster's method: unlike rounding,
    no version loses a replica because there are more replicas or less work of others). A replica can only
    ever change to the newest version, so no other gets more than it holds, and the newest no less.

    Work is counted in trajectories, and those of old versions are the long ones: by their number alone they
    would get less than their KV caches fill. So no version falls below what it needs, as long as the newest
    has one.

    Worked out from the end, at a cost of the replicas that change: from what is held, the newest takes one
    by one from the version with the weakest claim to its last, as long as its own is not weaker.

    Args:
        work: trajectories of each version that run or are about to.
        held: replicas that serve, or load, each version.
        newest: version; every other is older.
        needed: replicas whose KV caches the running trajectories of a version fill.

    Returns:
        Replicas of each version in ``held``, and of the newest; as many together as are held.

    >>> share_out({3: 10, 4: 30, 5: 20}, {3: 2, 4: 4}, newest=5)
    {3: 1, 4: 3, 5: 2}
    >>> share_out({3: 10, 4: 30, 5: 20}, {3: 2, 4: 4}, newest=5, needed={3: 2})
    {3: 2, 4: 2, 5: 2}
    """
    shares = {version: number for version, number in held.items() if version != newest}
    least = {version: int(work.get(version, 0) > 0) for version in shares}
    shares[newest] = held.get(newest, 0)

    def claim(version: int, before: int) -> tuple[float, int]:
        """Strength of a version's claim to one more, when it has so many."""
        return work.get(version, 0) / (2 * before + 1), version

    def surplus() -> list[int]:
        """Versions that may give one: those with more than they need, or, for the newest's first, any."""
        wanted = needed or {}
        rich = [v for v in least if shares[v] > max(least[v], wanted.get(v, 0))]
        return rich if rich or shares[newest] else [v for v in least if shares[v] > least[v]]

    while claims := [claim(version, shares[version] - 1) for version in surplus()]:
        weakest = min(claims)
        if shares[newest] and weakest > claim(newest, shares[newest]):
            break
        shares[weakest[1]] -= 1
        shares[newest] += 1
    return shares
