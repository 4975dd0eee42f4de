"""Trajectories that are not to be trained: one function a reason, and the filter that a run is given.

A filter changes what the policy is trained on, so each is off until it is asked for (broken episodes apart,
which never train), and each has its price:

- ``near_duplicate``: samples of the policy that are equal are right in their number; dropping them trains a
  policy that is not the one that sampled. Meant for demonstrations and for groups that are played greedily.
- ``suspected_hack``, ``repetition``, ``over_length``: what is dropped is not punished either. Where such a
  trajectory has a reward of 0, keeping it teaches against it.

And a group that has lost a member has another baseline (verl PR 6452): drop the whole group, or leave the
member out of mean and deviation too.
"""

from __future__ import annotations

import hashlib
import re
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from agentic_gym.config import ReadWhen, StrictConfig
from agentic_gym.types import Outcome, Trajectory

_PIECES = re.compile(r"\w{1,8}|[^\w\s]")  # long words in parts: "aaaa…" without a space repeats too
_LEAST_NGRAMS = 32  # fewer say nothing: "x = x + x" repeats itself as well
_SHINGLE = 5
_SKETCH = 128


class FilterSection(StrictConfig):
    """Which trajectories are dropped.

    Attributes:
        suspected_hack: those that ended as ``suspected_hack``.
        repetition: those that go round in circles.
        repetition_ngram: pieces (parts of words, signs) of an n-gram.
        repetition_share: share of an action's n-grams that have occurred in it before.
        repetition_turns: turns in a row with the same action and the same observation.
        max_tokens: longer streams are dropped; 0: none is.
        near_duplicate: Jaccard similarity of two trajectories' actions from which the second is dropped;
            0: none is.
        duplicate_window: trajectories of the same task in earlier groups that are compared with, too.
    """

    suspected_hack: bool = False
    repetition: bool = False
    repetition_ngram: Annotated[int, Field(gt=0), ReadWhen("repetition", (True,))] = 8
    repetition_share: Annotated[float, Field(gt=0, lt=1), ReadWhen("repetition", (True,))] = 0.6
    repetition_turns: Annotated[int, Field(ge=2), ReadWhen("repetition", (True,))] = 4
    max_tokens: Annotated[int, Field(ge=0)] = 0
    near_duplicate: Annotated[float, Field(ge=0, le=1)] = 0.0
    duplicate_window: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="after")
    def _refuse_unread_window(self) -> Self:
        if self.duplicate_window and not self.near_duplicate:
            raise ValueError(
                f"duplicate_window={self.duplicate_window} is read only when near_duplicate is over 0"
            )
        return self


def infra_error(trajectory: Trajectory) -> str | None:
    """Broken by the machinery."""
    return "infra_error" if trajectory.outcome is Outcome.INFRA_ERROR else None


def suspected_hack(trajectory: Trajectory) -> str | None:
    """Reached its reward in a way that the grader does not believe."""
    return "suspected_hack" if trajectory.outcome is Outcome.SUSPECTED_HACK else None


def over_length(trajectory: Trajectory, max_tokens: int) -> str | None:
    """Its token stream, prompts and observations included, is longer than ``max_tokens``."""
    tokens = trajectory.tokens
    return "over_length" if tokens is not None and len(tokens) > max_tokens else None


def repetition(
    trajectory: Trajectory, *, ngram: int = 8, share: float = 0.6, turns: int = 4
) -> str | None:
    """Goes round in circles, within an action or from turn to turn.

    An action that is repeated with another observation each time (tests run after each edit) is work.

    Args:
        trajectory: any.
        ngram: pieces of an n-gram.
        share: of an action's n-grams that have occurred in it before, above which it is degenerate.
        turns: in a row with the same action and the same observation, from which they are.
    """
    run, before = 0, None
    for turn in trajectory.turns:
        now = (turn.action, turn.observation)
        run, before = (run + 1 if now == before else 1), now
        if run >= turns or repeated_share(turn.action, ngram) > share:
            return "repetition"
    return None


def repeated_share(text: str, ngram: int) -> float:
    """Share of a text's n-grams that have occurred in it before; 0 where there are too few to tell.

    >>> round(repeated_share("so on and " * 40, 8), 2)
    0.97
    """
    pieces = _PIECES.findall(text)
    count = len(pieces) - ngram + 1
    if count < _LEAST_NGRAMS:
        return 0.0
    return 1 - len({tuple(pieces[i : i + ngram]) for i in range(count)}) / count


def sketch(trajectory: Trajectory) -> tuple[int, ...]:
    """The smallest hashes of its actions' shingles (bottom-k sketch, Broder 1997), sorted; () for none.

    A shingle is five words in a row, over the turns' borders; case and white space do not matter.
    """
    words = " ".join(turn.action for turn in trajectory.turns).lower().split()
    if not words:
        return ()
    last = max(1, len(words) - _SHINGLE + 1)
    shingles = {" ".join(words[i : i + _SHINGLE]) for i in range(last)}
    return tuple(sorted(map(_hash, shingles))[:_SKETCH])


def similarity(first: Sequence[int], second: Sequence[int]) -> float:
    """Jaccard similarity of two trajectories' shingles, from their sketches.

    Exact where both together have at most 128 shingles, else an estimate with a standard error below 0.045.
    """
    union = sorted({*first, *second})[:_SKETCH]
    if not union:
        return 0.0
    both = set(first) & set(second)
    return sum(value in both for value in union) / len(union)


class TrajectoryFilter:
    """Says for what reason, if any, a trajectory is dropped.

    Args:
        section: of the configuration.
    """

    def __init__(self, section: FilterSection) -> None:
        self._section = section
        self._window: dict[str, deque[tuple[int, ...]]] = {}

    def judge(self, trajectory: Trajectory) -> str | None:
        """The first reason that holds; duplicates apart, which take a group."""
        settings = self._section
        reason = infra_error(trajectory)
        if settings.suspected_hack:
            reason = reason or suspected_hack(trajectory)
        if settings.max_tokens:
            reason = reason or over_length(trajectory, settings.max_tokens)
        if settings.repetition:
            reason = reason or repetition(
                trajectory,
                ngram=settings.repetition_ngram,
                share=settings.repetition_share,
                turns=settings.repetition_turns,
            )
        return reason

    def judge_group(self, trajectories: Sequence[Trajectory]) -> dict[str, str]:
        """Reasons by trajectory id, for those of a group that are dropped.

        Of two near duplicates the one with the smaller id is kept. Groups are to be judged in a fixed order
        (that of the batch), since the window moves on with each.
        """
        reasons: dict[str, str] = {}
        kept: list[tuple[str, tuple[int, ...]]] = []
        for trajectory in sorted(trajectories, key=lambda t: t.trajectory_id):
            reason = self.judge(trajectory)
            if reason is None and self._section.near_duplicate:
                marks = sketch(trajectory)
                if self._seen(trajectory.task_id, marks, kept):
                    reason = "near_duplicate"
                else:
                    kept.append((trajectory.task_id, marks))
            if reason is not None:
                reasons[trajectory.trajectory_id] = reason
        if self._section.duplicate_window:
            for task, marks in kept:
                empty = deque[tuple[int, ...]](maxlen=self._section.duplicate_window)
                self._window.setdefault(task, empty).append(marks)
        return reasons

    def state_dict(self) -> dict[str, Any]:
        """Sketches of the window, by task."""
        return {"window": {task: list(map(list, seen)) for task, seen in self._window.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over a saved state, also one of a wider window."""
        size = self._section.duplicate_window
        self._window = {
            task: deque((tuple(marks) for marks in seen), maxlen=size)
            for task, seen in state["window"].items()
        }

    def _seen(
        self, task: str, marks: tuple[int, ...], kept: Sequence[tuple[str, tuple[int, ...]]]
    ) -> bool:
        others = [other for name, other in kept if name == task]
        others += self._window.get(task, ())
        return any(similarity(marks, other) >= self._section.near_duplicate for other in others)


def _hash(text: str) -> int:
    # Half a surrogate pair may be in a model's text, and cannot be encoded otherwise.
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
