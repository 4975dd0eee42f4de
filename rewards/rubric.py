"""Rewards of your own: functions of a finished episode, added up by weight.

A reward is a function of a :class:`~agentic_gym.types.Trajectory`, or a class with one method ``score`` that
is one. It answers a number for the whole episode, or one number for each turn. :func:`register_reward` names
it; an import path ``module:object`` needs no name.

Such rewards are added to those of the environment, and change what is optimal: that is what they are for.
What should only help on the way belongs into a potential (:mod:`~agentic_gym.rewards.credit.process`).

Rejected: a reward of 0 where a reward function breaks. It says of the episode what is true of the function.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import math
import numbers
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any, Protocol, TypeVar, runtime_checkable

from agentic_gym.errors import ConfigError, UserError
from agentic_gym.suggest import did_you_mean
from agentic_gym.types import Outcome, Trajectory

Score = float | Sequence[float]
"""Of the whole episode, or of each turn.  # [] or [K]"""

RewardFunction = Callable[[Trajectory], Score]

R = TypeVar("R")


@runtime_checkable
class Scorer(Protocol):
    """A reward with a state of its own (settings, a loaded model)."""

    def score(self, trajectory: Trajectory) -> Score:
        """Reward of an episode, or of each of its turns."""
        ...


_registered: dict[str, Any] = {}


def register_reward(name: str) -> Callable[[R], R]:
    """Gives a function, or a class with ``score``, a name under which rubrics find it.

    A class is made without arguments, once for each rubric.

    Args:
        name: free of ``:`` and ``/``, which import paths and metrics have.

    Raises:
        ConfigError: the name is taken or malformed.
    """
    if not name or not set(name).isdisjoint(":/") or name != name.strip():
        raise ConfigError(f"{name!r} cannot name a reward: leave out ':', '/' and outer blanks")

    def register(reward: R) -> R:
        taken = _registered.setdefault(name, reward)
        if taken is not reward and _origin(taken) != _origin(reward):
            raise ConfigError(
                f"the reward {name!r} is taken by {_origin(taken)}: give another name"
            )
        _registered[name] = reward  # a module that is loaded again brings its own rewards again
        return reward

    return register


def find_reward(name: str) -> RewardFunction:
    """The reward of a name or of an import path ``module:object``.

    Raises:
        ConfigError: there is none, or it is no reward.
    """
    module, separator, attribute = name.partition(":")
    if separator:
        try:
            return _function(getattr(importlib.import_module(module), attribute), name)
        except (ImportError, AttributeError, ValueError) as error:
            raise ConfigError(f"reward {name!r} cannot be imported: {error}") from error
    if name not in _registered:
        hint = did_you_mean(name, _registered)
        known = ", ".join(sorted(_registered)) or "none"
        raise ConfigError(
            f"no reward {name!r}.{hint} Registered: {known}. Import the module that registers it, "
            "or write module:object"
        )
    return _function(_registered[name], name)


class Rubric:
    """Adds weighted rewards to episodes.

    >>> @register_reward("brevity")
    ... def brevity(trajectory):
    ...     return -len(trajectory.turns)
    >>> Rubric({"brevity": 0.01}).names
    ('brevity',)

    Args:
        weights: of rewards, by name or import path.

    Raises:
        ConfigError: a reward is not known, or a weight is not finite.
    """

    def __init__(self, weights: Mapping[str, float]) -> None:
        for name, weight in weights.items():
            if not _is_finite(weight):
                raise ConfigError(
                    f"the weight of reward {name!r} is {weight!r}: give a finite number"
                )
        self._weights = {name: float(weight) for name, weight in weights.items()}
        self._functions = {name: find_reward(name) for name in weights}

    @property
    def names(self) -> tuple[str, ...]:
        """Of the rewards."""
        return tuple(self._weights)

    def apply(self, trajectory: Trajectory) -> Trajectory:
        """The episode with the weighted rewards added to those of its turns.

        The reward of a whole episode goes to its last turn. What each reward gave, unweighted and summed over
        the turns, is in the metrics as ``reward/<name>``. An ``infra_error`` is never scored. An episode of
        which a reward cannot be had (it raises, or gives what is no finite number for the episode or each
        turn) becomes one, with the cause as its ``error``.

        Raises:
            UserError: that a reward raised; every episode would meet it.
        """
        if trajectory.outcome is Outcome.INFRA_ERROR:
            return trajectory
        added = [0.0] * len(trajectory.turns)
        metrics = dict(trajectory.metrics)
        for name, function in self._functions.items():
            try:
                shares = _shares(name, trajectory, function(trajectory))
            except _BadScore as error:
                return _broken(trajectory, str(error))
            except UserError:
                raise
            except Exception as error:
                trace = "".join(traceback.format_exception(error, limit=-4))
                return _broken(trajectory, f"reward {name!r} broke\n{trace}")
            metrics[f"reward/{name}"] = math.fsum(shares)
            # An episode without a turn has nothing that could earn: zip leaves its share out.
            pairs = zip(added, shares, strict=False)
            added = [total + self._weights[name] * share for total, share in pairs]
        turns = tuple(
            dataclasses.replace(turn, reward=turn.reward + more)
            for turn, more in zip(trajectory.turns, added, strict=True)
        )
        return dataclasses.replace(trajectory, turns=turns, metrics=metrics)

    def check(self, trajectories: Sequence[Trajectory], *, limit_s: float = 1.0) -> None:
        """:func:`check_reward` for each reward."""
        for name, function in self._functions.items():
            check_reward(function, trajectories, limit_s=limit_s, name=name)


def check_reward(
    function: RewardFunction | Scorer,
    trajectories: Sequence[Trajectory],
    *,
    limit_s: float = 1.0,
    name: str = "",
) -> None:
    """Tries a reward on episodes, each twice, before a run depends on it.

    Args:
        function: the reward.
        trajectories: finished episodes; those that ended as ``infra_error`` are left out.
        limit_s: seconds that one call may take. A call that takes longer is given up, not ended.
        name: of the reward, for messages; by default that of the function.

    Raises:
        ConfigError: it raises, gives a value that is not finite or of the wrong shape, gives another one on a
            repeat, or takes too long; the message names reward, episode and value. Or nothing can be tried.
    """
    name = name or getattr(function, "__name__", type(function).__name__)
    if not 0 < limit_s < math.inf:
        raise ConfigError(f"limit_s={limit_s!r} must be positive and finite")
    call = _function(function, name)
    tried = [t for t in trajectories if t.outcome is not Outcome.INFRA_ERROR]
    if not tried:
        raise ConfigError(
            f"reward {name!r} cannot be tried: there is no episode that did not break"
        )
    for trajectory in tried:
        first, again = (_tried(name, call, trajectory, limit_s) for _ in range(2))
        if first != again:
            raise ConfigError(
                f"reward {name!r} of episode {trajectory.trajectory_id!r} is {_short(first)}, and "
                f"{_short(again)} when asked again: it must depend on the episode alone"
            )


class _BadScore(ValueError):
    """What a reward gave is no score."""


def _tried(name: str, call: RewardFunction, trajectory: Trajectory, limit_s: float) -> list[float]:
    """Scores of one call, in a thread, so that one that hangs can be named."""
    answer: list[Any] = []
    raised: list[BaseException] = []

    def ask() -> None:
        try:
            answer.append(call(trajectory))
        except BaseException as error:  # one that leaves the thread would leave no answer
            raised.append(error)

    thread = threading.Thread(target=ask, daemon=True)
    began = time.perf_counter()
    thread.start()
    thread.join(limit_s)
    where = f"reward {name!r} of episode {trajectory.trajectory_id!r}"
    if thread.is_alive() or time.perf_counter() - began > limit_s:
        raise ConfigError(
            f"{where} took longer than limit_s={limit_s:g}: each episode would wait for it"
        )
    if raised:
        kind = type(raised[0]).__name__
        raise ConfigError(f"{where} raised {kind}: {raised[0]}") from raised[0]
    try:
        return _shares(name, trajectory, answer[0])
    except _BadScore as error:
        raise ConfigError(str(error)) from None


def _shares(name: str, trajectory: Trajectory, score: object) -> list[float]:
    """A score as one of each turn; of the whole episode at the last turn (or alone, where there is none)."""
    count = len(trajectory.turns)
    where = f"reward {name!r} of episode {trajectory.trajectory_id!r} is {_short(score)}"
    if isinstance(score, numbers.Real):
        values = [0.0] * (count - 1) + [float(score)]
    elif isinstance(score, Iterable) and not isinstance(score, (str, bytes, Mapping, Set)):
        try:
            given = list(score)
        except TypeError:  # an array without dimensions
            raise _BadScore(f"{where}: give a number, or a sequence of one a turn") from None
        if len(given) != count:
            raise _BadScore(
                f"{where}, of length {len(given)}: give one number for each of {count} turns"
            )
        if not all(isinstance(value, numbers.Real) for value in given):
            raise _BadScore(f"{where}: give numbers")
        values = [float(value) for value in given]
    else:
        raise _BadScore(f"{where}: give a number, or a sequence of one a turn")
    if not all(math.isfinite(value) for value in values):
        raise _BadScore(f"{where}: it must be finite")
    return values


def _broken(trajectory: Trajectory, error: str) -> Trajectory:
    return dataclasses.replace(
        trajectory,
        outcome=Outcome.INFRA_ERROR,
        terminated=False,
        truncated=False,
        error=error,
    )


def _function(reward: Any, name: str) -> RewardFunction:
    """A reward as a function: the ``score`` of an object, or of one made of a class."""
    if inspect.isclass(reward):
        if not callable(getattr(reward, "score", None)):
            raise ConfigError(f"reward {name!r} is a class without a method score(trajectory)")
        try:
            reward = reward()
        except TypeError as error:
            raise ConfigError(
                f"reward {name!r} cannot be made without arguments: {error}. Give an object by its "
                "import path"
            ) from error
    if isinstance(reward, Scorer):
        return reward.score
    if not callable(reward):
        raise ConfigError(f"reward {name!r} is {_short(reward)}: neither a function nor with score")
    function: RewardFunction = reward
    return function


def _origin(reward: Any) -> str:
    return f"{getattr(reward, '__module__', '?')}.{getattr(reward, '__qualname__', repr(reward))}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"


def _is_finite(value: object) -> bool:
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return number and math.isfinite(value)  # type: ignore[arg-type]
