"""Groups that a modelled run refuses when their last member finishes, and what has to become of them.

A group is refused as one: all that was played of it is dropped while the refusal is handled, for its reason.
Later would be too late for a driver, which has told why.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping

from agentic_gym.errors import ConfigError
from agentic_gym.trainers.schedules import base
from agentic_gym.trainers.schedules.model_episode import Episode

REASON = "all its rewards are equal"
"""Why a group is refused."""


class Refusals:
    """Refuses groups, and finds breaches of what :class:`~agentic_gym.trainers.schedules.base.Failed` says.

    Args:
        rate: probability that a group is refused.
        group_size: of every group in a batch. Of one that has more members, as many are enough.
        rng: draws.
        breach: makes the error.

    Raises:
        ConfigError: the rate is none, or 1: no batch would ever be whole.
    """

    def __init__(
        self,
        rate: float,
        group_size: int,
        rng: random.Random,
        breach: Callable[[str], Exception],
    ) -> None:
        if not 0 <= rate < 1:
            raise ConfigError(
                f"refusal={rate} must be a probability below 1: no batch would be whole"
            )
        self._rate, self._group_size = rate, group_size
        self._rng, self._breach = rng, breach
        self._refused: list[Episode] = []  # a group, while its refusal is handled

    def told(self, episode: Episode, episodes: Mapping[str, Episode]) -> base.Event:
        """What the schedule is told of an episode that has finished: its result, or a refusal."""
        number = base.parse_id(episode.name)[0]
        names = (base.trajectory_id(number, member) for member in itertools.count())
        known = [episodes[name] for name in itertools.takewhile(episodes.__contains__, names)]
        group = [member for member in known if member.state != "dropped"]
        episode.state = "finished"
        whole = sum(member.state == "finished" for member in group) == self._group_size
        if not self._rate or not whole or self._rng.random() >= self._rate:
            return base.Finished(episode.name, episode.length)
        episode.state, self._refused = "refused", group
        return base.Failed(episode.name, REASON, final=True, seconds=episode.length)

    def may_follow(self) -> bool:
        """A verdict is left for the time after a restart."""
        return self._rate > 0 and self._rng.random() < 0.5

    def dropped(self, episode: Episode, reason: str) -> None:
        """An episode is about to be dropped."""
        if reason == REASON and episode not in self._refused:
            raise self._breach(f"{episode.name} is dropped ({reason}), but was not refused")

    def check(self) -> None:
        """After each event: what was refused is gone."""
        for episode in self._refused:
            if episode.state != "dropped" or episode.reason != REASON:
                why = f" ({episode.reason})" if episode.reason else ""
                raise self._breach(
                    f"the group of {episode.name} is refused ({REASON}), and it is {episode.state}{why}"
                )
        self._refused = []
