"""Episodes of other runs as demonstrations: a small model explores, a large one imitates what it solved.

Exploring is mostly sampling, and sampling costs what the model costs. So a small model plays, some of its
solved episodes are chosen (:func:`choose`), each is played again in the environment of the run that learns
(:mod:`~agentic_gym.trainers.replays`), and those that are solved again are what a warm start imitates:
rejection-sampling fine-tuning (Yuan et al. 2023, arXiv 2308.01825; STaR, Zelikman et al. 2022, arXiv
2203.14465), with samples of another model.

Rejected: PPO on them, with importance weights. The weight of an episode is a product over its hundreds of
sampled tokens, which two policies seldom agree on, so nearly all are clipped or capped away; and with another
tokenizer there is no token whose probabilities could be compared.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agentic_gym.errors import ConfigError, StoreError
from agentic_gym.store import RunStore
from agentic_gym.trainers.selection.filters import similarity, sketch
from agentic_gym.types import Outcome, Trajectory, Turn

if TYPE_CHECKING:
    from agentic_gym.trainers.run_config import DemonstrationSection

NEAR_DUPLICATE = 0.9
"""Similarity of the actions from which an episode repeats another; see ``trainers.selection.filters``."""

LEFT_OUT = {
    "other_task": "of tasks that do not train here",
    "infra_error": "broken by the machinery",
    "unsolved": "not solved",
    "unwritable": "with text that no tokenizer takes",
    "out_of_band": "of tasks outside the band",
    "over_max_tasks": "over max_tasks",
    "repeated": "like another of its task",
    "over_per_task": "over per_task",
}
"""Why an episode is not chosen, in words, in the order in which it is asked."""


@dataclass(frozen=True, slots=True, order=True)
class Explored:
    """A solved episode of another run, as far as it is needed to play it again.

    Attributes:
        length: characters of its actions.
        trajectory_id: in its run; other runs may use the same.
        task_id: which task.
        seed: of the episode.
        actions: what was written, turn by turn.  # [K]
    """

    length: int
    trajectory_id: str
    task_id: str
    seed: int
    actions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen.

    Attributes:
        tries: episodes that there were; each is chosen or left out for one reason.
        chosen: by the order of the tasks, and for each task the shortest first.
        left_out: how many were left out, by reason (:data:`LEFT_OUT`).
    """

    tries: int
    chosen: tuple[Explored, ...]
    left_out: Mapping[str, int]

    def told(self) -> str:
        """The numbers in words."""
        return f"{self.tries} tries, {len(self.chosen)} chosen{in_words(self.left_out, LEFT_OUT)}"


def choose(
    trajectories: Iterable[Trajectory],
    tasks: Sequence[str],
    *,
    band: tuple[float, float] = (0.0, 1.0),
    per_task: int,
    max_tasks: int = 0,
) -> Choice:
    """Chooses what is to be imitated; the order of ``trajectories`` does not matter.

    Shorter episodes are preferred, since they hold fewer detours. Length is counted in characters: tokens of
    two models cannot be compared, and scripted agents have none.

    Args:
        trajectories: of other runs, of any task and outcome.
        tasks: ids of the tasks that train in this run; only these are ever chosen.
        band: lowest and highest share of a task's tries that solved it; infra errors are no tries.
        per_task: most episodes of a task.
        max_tasks: most tasks, the first of ``tasks`` of which there is something to choose; 0 for all.
    """
    places = {task: place for place, task in enumerate(tasks)}
    left_out = dict.fromkeys(LEFT_OUT, 0)
    tried: Counter[str] = Counter()
    won: Counter[str] = Counter()
    fit: dict[str, list[_Fit]] = {}
    tries = 0
    for trajectory in trajectories:
        tries += 1
        reason = _unfit(trajectory, places)
        if reason is None:
            fit.setdefault(trajectory.task_id, []).append(_fit(trajectory))
        else:
            left_out[reason] += 1
        tried[trajectory.task_id] += reason != "infra_error"
        won[trajectory.task_id] += trajectory.outcome is Outcome.SOLVED
    chosen: list[Explored] = []
    room = max_tasks or len(places)
    for task in sorted(fit, key=places.__getitem__):
        if not band[0] <= won[task] / tried[task] <= band[1]:
            left_out["out_of_band"] += len(fit[task])
        elif not room:
            left_out["over_max_tasks"] += len(fit[task])
        else:
            room -= 1
            chosen += _shortest(fit[task], per_task, left_out)
    return Choice(tries, tuple(chosen), left_out)


def in_words(left_out: Mapping[str, int], words: Mapping[str, str]) -> str:
    """What was left out and why, to be put behind what was not; empty if nothing was."""
    parts = [f"{left_out[name]} {text}" for name, text in words.items() if left_out[name]]
    return f"; left out: {', '.join(parts)}" if parts else ""


def check_runs(runs: Sequence[str]) -> None:
    """Refuses folders that hold no episodes, before any work.

    Raises:
        ConfigError: one is no folder, has no store or an empty one, or is given twice.
    """
    seen: dict[Path, str] = {}
    for run in runs:
        place = Path(run)
        if not place.is_dir():
            raise ConfigError(
                f"demonstrations.runs: there is no folder {run!r}: give the output_dir of a training run, of "
                "`agentic-gym eval` or of `agentic-gym tasks profile`"
            )
        if place.resolve() in seen:
            raise ConfigError(
                f"demonstrations.runs: {run!r} and {seen[place.resolve()]!r} are the same folder, whose "
                "tries would count twice: give it once"
            )
        seen[place.resolve()] = run
        with _opened(run) as store:
            if next(_of_store(store), None) is None:
                raise ConfigError(
                    f"demonstrations.runs: no episode is finished in {run!r}: wait for one, or give another"
                )


def explore(section: DemonstrationSection, tasks: Sequence[str]) -> Choice:
    """Chooses from the runs of a configuration.

    Args:
        section: of the configuration.
        tasks: ids of the tasks that train in this run, in a seeded order.

    Raises:
        ConfigError: as :func:`check_runs`; or a run played no task that trains here; or nothing is chosen.
    """
    check_runs(section.runs)
    choice = choose(
        (trajectory for run in section.runs for trajectory in _of_run(run, tasks)),
        tasks,
        band=section.band,
        per_task=section.per_task,
        max_tasks=section.max_tasks,
    )
    if not choice.chosen:
        low, high = section.band
        raise ConfigError(
            f"demonstrations.runs={list(section.runs)} hold nothing to imitate: {choice.told()}. Give runs "
            "of a model that solves some of these tasks, or a wider demonstrations.band than "
            f"{low:g} to {high:g}"
        )
    return choice


@dataclass(frozen=True, slots=True)
class _Fit:
    explored: Explored
    marks: tuple[int, ...]


def _fit(trajectory: Trajectory) -> _Fit:
    actions = tuple(turn.action for turn in trajectory.turns)
    explored = Explored(
        length=sum(map(len, actions)),
        trajectory_id=trajectory.trajectory_id,
        task_id=trajectory.task_id,
        seed=trajectory.seed,
        actions=actions,
    )
    return _Fit(explored, sketch(trajectory))


def _unfit(trajectory: Trajectory, places: Mapping[str, int]) -> str | None:
    """Why an episode is not to be imitated, whatever others there are."""
    if trajectory.task_id not in places:
        return "other_task"
    if trajectory.outcome is Outcome.INFRA_ERROR:
        return "infra_error"
    if trajectory.outcome is not Outcome.SOLVED:
        return "unsolved"
    return None if all(map(_writable, trajectory.turns)) else "unwritable"


def _writable(turn: Turn) -> bool:
    """Half a surrogate pair, which a server may send, breaks every tokenizer."""
    try:
        turn.action.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shortest(fit: Iterable[_Fit], most: int, left_out: dict[str, int]) -> list[Explored]:
    """The shortest that differ from one another; counts the others."""
    kept: list[_Fit] = []
    for one in sorted(fit, key=lambda one: one.explored):
        if any(_alike(one, other) for other in kept):
            left_out["repeated"] += 1
        elif len(kept) == most:
            left_out["over_per_task"] += 1
        else:
            kept.append(one)
    return [one.explored for one in kept]


def _alike(one: _Fit, other: _Fit) -> bool:
    same = one.explored.actions == other.explored.actions
    return same or similarity(one.marks, other.marks) >= NEAR_DUPLICATE


def _of_run(run: str, tasks: Sequence[str]) -> Iterator[Trajectory]:
    known, tries, here = set(tasks), 0, 0
    with _opened(run) as store:
        for trajectory in _of_store(store):
            tries += 1
            here += trajectory.task_id in known
            yield trajectory
    if not here:
        raise ConfigError(
            f"demonstrations.runs: none of the {tries} episodes in {run!r} is of a task that trains here "
            f"({len(known)} tasks, {', '.join(sorted(known)[:3])} …): give a run on the same task set and "
            "split"
        )


def _of_store(store: RunStore) -> Iterator[Trajectory]:
    """All that is finished: episodes of training or of a profile, and those of evaluations."""
    yield from store.finished()
    for name in store.evals():
        yield from store.eval_trajectories(name)


@contextlib.contextmanager
def _opened(run: str) -> Iterator[RunStore]:
    try:
        with RunStore(run, readonly=True) as store:
            yield store
    except StoreError as error:
        raise ConfigError(
            f"demonstrations.runs: {run!r} has no store whose episodes can be read: {error}"
        ) from error
