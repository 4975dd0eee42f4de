"""Bounded staleness as a window over versions: what may still be launched, and which batch may go next.

A group whose oldest member was sampled by version ``v`` may be trained by the updates that start from
versions ``v`` to ``v + K``. Let ``u`` be the version that the next update starts from, ``B`` the groups of a
batch and ``n(w)`` the untrained groups of version ``w`` or older. All of them can be trained in time exactly
if what must go always fits::

    n(w) <= (w + K - u + 1) B    for every version w

- Launching keeps it: :meth:`Window.room` is what it leaves. For the newest version this is the admission of
  AReaL (arXiv 2505.24298): launched and untrained <= (K + 1) B.
- A batch keeps it (for ``u + 1``) if it takes at least ``n(w) - (w + K - u) B`` groups of version ``w`` or
  older, for every ``w``; for ``w = u - K`` these are all that there are, so the window slides only when
  every trajectory of the oldest version is collected. The oldest complete groups meet this whenever any
  batch does. Where they do not, the batch waits for groups that still run, and once all are complete it
  goes.
- What else happens only makes it easier: a drop takes a group away, a trajectory that starts again under
  newer weights moves its group to a later version.
"""

from __future__ import annotations

from heapq import heappop, heappush


class Window:
    """Untrained groups by version.

    Every method takes a time that does not grow with their number, but for the logarithm in
    :meth:`complete` and :meth:`take`. What was launched under a wider window may be too late already: it
    goes first, and what is launched beside it is still trained in time.

    Args:
        size: updates that a trained group may be behind the trainer: K.
        batch: groups of an update: B.
        update: version that the next update starts from.

    Attributes:
        update: version that the next update starts from.
    """

    def __init__(self, size: int, batch: int, update: int = 0) -> None:
        self.update = update
        self._size = size
        self._batch = batch
        self._groups: dict[int, int] = {}  # of each version, complete or not; never zero
        self._ready: dict[int, int] = {}  # of each version, complete
        self._complete: list[tuple[int, int]] = []  # heap of version, number

    def enter(self, version: int) -> None:
        """A group was launched under this version."""
        self._groups[version] = self._groups.get(version, 0) + 1

    def leave(self, version: int) -> None:
        """A group of this version, not complete, was dropped."""
        self._groups[version] -= 1
        if not self._groups[version]:
            del self._groups[version]

    def complete(self, version: int, number: int) -> None:
        """The group with this number and version is complete; it stays so until it is taken."""
        self._ready[version] = self._ready.get(version, 0) + 1
        heappush(self._complete, (version, number))

    def room(self, version: int) -> int:
        """How many more groups of this version can still be trained in time."""
        due, room = sum(self._groups.values()), None
        for newer in sorted((v for v in self._groups if v > version), reverse=True):
            left = self._capacity(newer) - due
            room = left if room is None else min(room, left)
            due -= self._groups[newer]
        left = self._capacity(version) - due
        return max(0, left if room is None else min(room, left))

    def may_emit(self) -> bool:
        """The oldest complete groups are a batch, and what is left after it can be trained in time."""
        if len(self._complete) < self._batch:
            return False
        due = ready = 0
        for version in sorted(self._groups):
            due += self._groups[version]
            ready = min(self._batch, ready + self._ready.get(version, 0))
            if ready == self._batch:
                return True  # no batch could take more of the old ones
            if due - ready > max(0, self._capacity(version) - self._batch):
                return False
        return True

    def take(self) -> list[int]:
        """Numbers of the groups of the next batch: the oldest versions first, each in launch order."""
        numbers = []
        for _ in range(self._batch):
            version, number = heappop(self._complete)
            self._ready[version] -= 1
            if not self._ready[version]:
                del self._ready[version]
            self.leave(version)
            numbers.append(number)
        self.update += 1
        return numbers

    def _capacity(self, version: int) -> int:
        """Groups of this version or older that can be trained in time."""
        return (version + self._size - self.update + 1) * self._batch
