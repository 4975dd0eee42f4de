"""Chosen episodes of other runs, played again in the environment of the run that learns.

What a large model imitates must begin, answer and end as its own episodes do, whatever environment the small
one explored in: other tools, another prompt, other budgets. So nothing of the recorded episode is used but
its actions, and only what is solved again is imitated.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium

from agentic_gym.errors import InfraError
from agentic_gym.trainers.demonstrations import Demonstration, in_shares, record
from agentic_gym.trainers.explored import Explored, in_words

NOT_REPLAYED = {
    "replay_unsolved": "no longer solved",
    "replay_unfinished": "not at their end after the last action",
    "replay_infra_error": "broken by the machinery, twice each",
}
"""Why a chosen episode is not imitated, in words."""


@dataclass(frozen=True, slots=True)
class Replays:
    """What became of the chosen episodes when they were played again.

    Attributes:
        demonstrations: those solved again, in the order of the choice.
        left_out: how many were not, by reason (:data:`NOT_REPLAYED`).
        error: what broke first; None if nothing did.
    """

    demonstrations: tuple[Demonstration, ...]
    left_out: Mapping[str, int]
    error: str | None = None

    def told(self) -> str:
        """The numbers in words."""
        chosen = len(self.demonstrations) + sum(self.left_out.values())
        broke = f" (first: {self.error})" if self.error else ""
        solved = f"{len(self.demonstrations)} of {chosen} solved again"
        return f"{solved}{in_words(self.left_out, NOT_REPLAYED)}{broke}"


class Replayer:
    """A demonstrator that writes what was recorded, whatever the environment answers.

    Args:
        actions: turn by turn.
    """

    def __init__(self, actions: Sequence[str]) -> None:
        self._actions = actions
        self._turn = 0

    def reset(self, task: Any, seed: int) -> None:
        """Begins with the first."""
        self._turn = 0

    def act(self, observation: str, info: Mapping[str, Any]) -> str:
        """The next action.

        Raises:
            OutOfActions: there is none.
        """
        if self._turn == len(self._actions):
            raise OutOfActions
        self._turn += 1
        return self._actions[self._turn - 1]


class OutOfActions(Exception):
    """An episode goes on where the recorded one had ended."""


def replay_many(
    make_env: Callable[[], gymnasium.Env[str, str]],
    chosen: Sequence[Explored],
    *,
    workers: int = 2,
    on_episode: Callable[[], None] = lambda: None,
) -> Replays:
    """Plays chosen episodes again: same task, seed and actions, in the environment of the run that learns.

    Actions that this environment refuses become slips: the model reads how they were mended, and does not
    learn to write them. An episode that breaks is tried once more in a new environment.

    Args:
        make_env: makes one environment for each worker, and one in place of each that broke.
        chosen: episodes.
        workers: threads, each with its own environment.
        on_episode: called as each ends.

    Raises:
        InfraError: every one of them broke.
    """

    def play(share: Sequence[Explored]) -> list[Demonstration | InfraError | None]:
        with _Renewed(make_env) as renewed:
            played = []
            for one in share:
                played.append(_replay(renewed, one))
                on_episode()
            return played

    results = in_shares(chosen, play, workers)
    ended = [one for one in results if isinstance(one, Demonstration)]
    errors = [one for one in results if isinstance(one, InfraError)]
    if errors and len(errors) == len(chosen):
        raise InfraError(
            f"each of the {len(chosen)} chosen episodes broke when it was played again, twice; "
            f"the first: {errors[0]}"
        ) from errors[0]
    solved = tuple(one for one in ended if one.solved)
    left_out = {
        "replay_unsolved": len(ended) - len(solved),
        "replay_unfinished": sum(one is None for one in results),
        "replay_infra_error": len(errors),
    }
    return Replays(solved, left_out, str(errors[0]) if errors else None)


class _Renewed:
    """An environment that can be replaced."""

    def __init__(self, make_env: Callable[[], gymnasium.Env[str, str]]) -> None:
        self._make_env = make_env
        self.env = make_env()

    def __enter__(self) -> _Renewed:
        return self

    def __exit__(self, *_: object) -> None:
        self.env.close()

    def renew(self) -> None:
        """Replaces it."""
        with contextlib.suppress(Exception):  # it broke, and may break again
            self.env.close()
        self.env = self._make_env()


def _replay(renewed: _Renewed, one: Explored) -> Demonstration | InfraError | None:
    """What was played; None if it did not end with the last action; or what broke, twice."""
    try:
        return _once(renewed, one)
    except InfraError:
        renewed.renew()
    try:
        return _once(renewed, one)
    except InfraError as error:
        renewed.renew()
        return error


def _once(renewed: _Renewed, one: Explored) -> Demonstration | None:
    replayer = Replayer(one.actions)
    with contextlib.suppress(OutOfActions):
        return record(renewed.env, replayer, one.task_id, one.seed, spare_refused=True)
    return None
