"""Difficulty profiles: how often a policy solved each task of a set, measured before training.

What writes a profile (an environment's command) and what reads it (task selection) do not know each other:
this is the file between them. A mean is that of Beta(½ + solved, ½ + failed), from Jeffreys' prior: four
tries of four are then no certainty (0.9), and one to three of four lie in a band from 0.2 to 0.8. Only the
counts are evidence; means and intervals stand in the file for people and must agree with them.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from agentic_gym.beta import beta_interval
from agentic_gym.config import StrictConfig
from agentic_gym.errors import ConfigError
from agentic_gym.metrics import Interval, cluster_mean

VERSION: Final = 1
"""Of the file's format."""

CONFIDENCE = 0.9
"""Of the intervals in a profile."""

_PRIOR = 0.5
_NO_INTERVAL = Interval(math.nan, math.nan, math.nan)
Count = Annotated[int, Field(ge=0, strict=True)]


class TaskTries(StrictConfig):
    """What became of the tries at one task; :meth:`of` makes one from counts.

    Attributes:
        solved: tries that solved it.
        total: tries that count: all but ``infra_errors``.
        infra_errors: tries of which the machinery broke; they say nothing about the task.
        mean: of the posterior; None if no try counts.
        interval: central 90 % interval of the posterior; None if no try counts.
    """

    solved: Count
    total: Count
    infra_errors: Count = 0
    mean: float | None = None
    interval: tuple[float, float] | None = None

    @classmethod
    def of(cls, solved: int, total: int, infra_errors: int = 0) -> TaskTries:
        """With the posterior's mean and interval.

        Raises:
            ConfigError: not 0 ≤ solved ≤ total, or a negative count.
        """
        found = _posterior(solved, total) if 0 <= solved <= total and total else _NO_INTERVAL
        known = not math.isnan(found.value)
        return cls(
            solved=solved,
            total=total,
            infra_errors=infra_errors,
            mean=found.value if known else None,
            interval=(found.low, found.high) if known else None,
        )

    @property
    def known(self) -> bool:
        """Whether a try counts."""
        return self.total > 0

    def in_band(self, low: float, high: float) -> bool:
        """Whether the posterior's mean lies between two numbers, ends included; False if unknown."""
        return self.mean is not None and low <= self.mean <= high

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.solved > self.total:
            raise ValueError(f"{self.solved} solved of {self.total}: give 0 ≤ solved ≤ total")
        mean = _mean(self.solved, self.total) if self.total else None
        if (mean is None) != (self.mean is None) or not math.isclose(
            mean or 0.0, self.mean or 0.0, abs_tol=1e-6
        ):
            raise ValueError(
                f"mean={self.mean} is not that of {self.solved} solved of {self.total}, {mean}: "
                "was the file changed by hand?"
            )
        _check_interval(self)
        return self


class DifficultyProfile(StrictConfig):
    """How often a policy solved each task of a set.

    Attributes:
        version: of the format.
        model: the policy: a baseline's name or the folder of a model.
        task_set: name or path of the set.
        split: of the set; None for all.
        samples: tries a task that were asked for.
        temperature: of sampling; None for a policy that does not sample tokens.
        seed: of the episodes.
        created: when the profile was written (ISO 8601, UTC).
        tasks: what became of each task, by its id.
    """

    version: Literal[1] = VERSION
    model: str
    task_set: str
    split: str | None
    samples: Annotated[int, Field(gt=0)]
    temperature: float | None
    seed: int
    created: str
    tasks: Annotated[dict[str, TaskTries], Field(min_length=1)]


def _check_interval(tries: TaskTries) -> None:
    low, high = tries.interval or (0.0, 1.0)
    if tries.mean is not None and not low <= tries.mean <= high:
        raise ValueError(f"interval={tries.interval} does not hold the mean, {tries.mean}")


def origin(profile: DifficultyProfile) -> str:
    """Where a profile comes from, for messages."""
    split = f", split {profile.split}" if profile.split else ""
    return f"{profile.model} on {profile.task_set}{split}, {profile.created}"


def write_profile(profile: DifficultyProfile, path: Path) -> None:
    """Writes a profile as JSON, whole or not at all."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        partial.write_text(json.dumps(profile.model_dump(mode="json"), indent=1) + "\n", "utf-8")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def read_profile(path: str | os.PathLike[str]) -> DifficultyProfile:
    """Reads what :func:`write_profile` wrote.

    Raises:
        ConfigError: the file is missing, unreadable, no profile, of another version, or contradicts itself.
    """
    try:
        data = json.loads(Path(path).read_text("utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(
            f"there is no difficulty profile at {path}: agentic-gym tasks profile makes one"
        ) from error
    except OSError as error:
        raise ConfigError(
            f"the profile {path} cannot be read: {error.strerror or error}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is no difficulty profile: it is not JSON ({error})") from error
    if not isinstance(data, dict) or "tasks" not in data:
        raise ConfigError(
            f"{path} is no difficulty profile: give the profile.json that agentic-gym tasks profile wrote"
        )
    if data.get("version") != VERSION:
        raise ConfigError(
            f"{path} is a profile of version {data.get('version')!r}, and this agentic-gym reads "
            f"version {VERSION}: profile the tasks anew"
        )
    try:
        return DifficultyProfile(**data)
    except (ConfigError, TypeError) as error:
        raise ConfigError(f"{path}: {error}") from error


@dataclass(frozen=True, slots=True)
class Shares:
    """How difficult some tasks are together.

    Attributes:
        tasks: how many.
        in_band: with a mean in the band.
        all_solved: solved in every try that counts.
        never_solved: in none.
        unknown: without a try that counts; they are in none of the three.
        success: share of the tries that count, with its 95 % interval clustered by task.
    """

    tasks: int
    in_band: int
    all_solved: int
    never_solved: int
    unknown: int
    success: Interval


def shares_of(tries: Iterable[TaskTries], band: tuple[float, float]) -> Shares:
    """Counts tasks by difficulty.

    Args:
        tries: of the tasks.
        band: its ends.
    """
    every = list(tries)
    known = [task for task in every if task.known]
    outcomes = {
        place: [1.0] * task.solved + [0.0] * (task.total - task.solved)
        for place, task in enumerate(known)
    }
    return Shares(
        tasks=len(every),
        in_band=sum(task.in_band(*band) for task in known),
        all_solved=sum(task.solved == task.total for task in known),
        never_solved=sum(task.solved == 0 for task in known),
        unknown=len(every) - len(known),
        success=cluster_mean(outcomes),
    )


def check_band(low_name: str, low: float, high_name: str, high: float) -> None:
    """Refuses what is no band.

    Raises:
        ConfigError: not 0 ≤ low < high ≤ 1.
    """
    if not 0 <= low < high <= 1:
        raise ConfigError(
            f"{low_name}={low} and {high_name}={high} are ends of a band of success rates: "
            f"give 0 ≤ {low_name} < {high_name} ≤ 1"
        )


def check_samples(samples: int, band: tuple[float, float]) -> None:
    """Refuses tries that are too few for a band: tasks that are never, or always, solved would be inside.

    Raises:
        ConfigError: as said, with the number that would do.
    """
    low, high = band
    # Of n tries, 0 and n solved have the means ½/(n + 1) and 1 − ½/(n + 1); an end at 0 or 1 leaves out none.
    edge = min((end for end in (low, 1 - high) if end > 0), default=1.0)
    if _mean(0, samples) >= edge:
        enough = math.floor(_PRIOR / edge - 1) + 1
        raise ConfigError(
            f"samples={samples} cannot tell a band of {low} to {high}: a task that is never (or always) "
            f"solved would lie inside. Give {enough} samples or more, or another band"
        )


def evidence_of(profile: DifficultyProfile) -> Mapping[str, tuple[int, int]]:
    """Solved and failed tries of the tasks that there is evidence of, by id."""
    return {
        name: (task.solved, task.total - task.solved)
        for name, task in profile.tasks.items()
        if task.known
    }


def _mean(solved: int, total: int) -> float:
    return (solved + _PRIOR) / (total + 2 * _PRIOR)


@cache
def _posterior(solved: int, total: int) -> Interval:
    return beta_interval(_PRIOR + solved, _PRIOR + total - solved, confidence=CONFIDENCE)
