"""What a schedule says before a batch is whole: groups that are certain to be in it.

The stream trainer of RollPacker (NSDI '26) begins with the gradients of a batch while its last episodes are
still played. Only the schedule knows which groups will be in the batch whatever happens to the others, so it
says so (:class:`~agentic_gym.trainers.schedules.base.Stage`). Handing over every trajectory that finishes was
rejected: one whose group breaks later is dropped with it, and its gradient cannot be taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from agentic_gym.trainers.schedules.base import Action, Stage, parse_id
from agentic_gym.trainers.schedules.groups import Group


class Stager:
    """Says of each group once that it will be in the next batch.

    Args:
        enabled: False says nothing.
    """

    def __init__(self, enabled: bool) -> None:
        self._enabled = enabled
        self._said: set[int] = set()

    def stage(
        self, complete: Mapping[int, Group], among: Iterable[int] | None = None
    ) -> list[Action]:
        """Says so of those of which it has not been said.

        Args:
            complete: groups all of whose members are finished, by number.
            among: numbers of groups that the next batch consists of, or more than it; None: it takes all that
                are complete before it is whole.
        """
        if not self._enabled:
            return []
        certain = complete if among is None else [n for n in among if n in complete]
        new = [number for number in certain if number not in self._said]
        self._said = {number for number in self._said if number in complete} | set(new)
        return [Stage(tuple(name for n in new for name in complete[n].members))] if new else []


class StageCheck:
    """Finds breaches of what :class:`~agentic_gym.trainers.schedules.base.Stage` says.

    Args:
        group_size: of every group in a batch.
        breach: makes the error.
    """

    def __init__(self, group_size: int, breach: Callable[[str], Exception]) -> None:
        self._group_size = group_size
        self._breach = breach
        self._staged: set[str] = set()
        self._training = False

    def staged(self, names: Sequence[str]) -> None:
        """Finished trajectories are staged."""
        groups = [parse_id(name)[0] for name in names]
        again = len(set(names)) < len(names) or self._staged.intersection(names)
        self._staged.update(names)
        if self._training:
            raise self._breach(f"{names} are staged while the trainer has a batch")
        if not names or again:
            raise self._breach(f"{names} are staged: nothing, or some of them again")
        if any(groups.count(group) != self._group_size for group in groups):
            raise self._breach(f"{names} are staged, which are no whole groups")

    def emitted(self, names: Sequence[str]) -> None:
        """A batch is handed over."""
        missing = sorted(self._staged.difference(names))
        if missing:
            raise self._breach(f"{missing} were staged and are not in the next batch")
        self._staged.clear()
        self._training = True

    def trained(self) -> None:
        """The trainer has no batch any more."""
        self._training = False

    def forget(self) -> None:
        """After a restart: what was staged may be staged again, or not."""
        self._staged.clear()
