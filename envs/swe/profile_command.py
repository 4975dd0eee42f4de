"""``agentic-gym tasks profile``: how difficult are the tasks of a set for a policy?

Each episode is kept in the ledger of a run's store as it ends, so that a profile that was killed goes on:
what is finished is never played again. An episode's seed depends on the evaluation's seed, its task and its
number alone, so more samples can be added later.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from os.path import exists
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator
from rich.console import Console
from rich.table import Table

from agentic_gym.config import CONFIG_SWITCH, Switch, dump_config, parse_flags, read_yaml
from agentic_gym.config import take_config_flag as take_config
from agentic_gym.difficulty import (
    DifficultyProfile,
    Shares,
    TaskTries,
    check_band,
    check_samples,
    shares_of,
    write_profile,
)
from agentic_gym.envs.swe.baselines import BASELINES
from agentic_gym.envs.swe.eval_command import (
    PlayConfig,
    Positive,
    check_players,
    claimed,
    env_factory,
    players,
)
from agentic_gym.envs.swe.task import SWETask, write_tasks
from agentic_gym.errors import ConfigError, TaskError
from agentic_gym.evaluation import make_launches, percent
from agentic_gym.folders import check_folder
from agentic_gym.rollout import Launch, Rollout
from agentic_gym.store import LaunchRecord, RunStore
from agentic_gym.types import Outcome

PROFILE = "profile.json"
_CONFIG = "config.yaml"
_AXES = ("error_class", "repo")
_MAY_CHANGE = {"output_dir", "band", "write_tasks", "samples", "concurrency", "sandboxes"}
"""What may differ when a profile goes on: nothing that changes an episode."""

_RESUME = Switch("--resume", "go on with the profile in the output folder")
_WIDE = 160  # columns of a table that no terminal shows
_SHOWN = 10
"""Unknown tasks that are named on the terminal; ``profile.json`` has all."""

Share = Annotated[float, Field(ge=0, le=1)]


class ProfileConfig(PlayConfig):
    """Settings of a difficulty profile: who plays, and what is made of it.

    Attributes:
        split: which split of the tasks; empty for all.
        samples: episodes a task. With --resume it may be raised: only what is missing is played.
        band: lowest and highest mean of the tasks that are worth training.
        write_tasks: JSONL file for the tasks in the band; a name that ends in .gz is gzipped.
        output_dir: where ``profile.json``, the trajectories and the settings go.
    """

    split: str = "train"
    samples: Positive = 4
    band: tuple[Share, Share] = (0.2, 0.8)
    write_tasks: Path | None = None
    output_dir: Path = Path("runs/profile")

    @model_validator(mode="after")
    def _refuse_what_tells_nothing(self) -> Self:
        check_band("band.low", self.band[0], "band.high", self.band[1])
        check_samples(self.samples, self.band)
        if self.temperature == 0:
            raise ValueError(
                "temperature=0 plays every sample of a task alike: give the temperature of training"
            )
        return self


@dataclass(frozen=True, slots=True)
class Profiled:
    """What profiling gave.

    Attributes:
        profile: of all tasks, as written.
        tasks: all of them.
        chosen: those in the band.
    """

    profile: DifficultyProfile
    tasks: Sequence[SWETask]
    chosen: Sequence[SWETask]


def run_profile(config: ProfileConfig, *, resume: bool = False) -> Profiled:
    """Plays what is missing, and writes ``profile.json``.

    What was played is kept if it is interrupted or fails.

    Args:
        config: what to profile.
        resume: go on with what is in the output folder.

    Raises:
        ConfigError: agent, folder or settings are wrong; or the folder holds something else.
        TaskError: the tasks cannot be loaded.
        SandboxUnavailable: no backend works here.
    """
    tasks = check_players(config)
    _check_places(config)
    launches = make_launches(
        [task.task_id for task in tasks],
        samples_per_task=config.samples,
        seed=config.seed,
        name="profile",
    )
    with _opened(config, resume=resume) as store:
        _check_tasks(tasks, store)
        done = {trajectory.trajectory_id for trajectory in store.finished()}
        missing = [launch for launch in launches if launch.trajectory_id not in done]
        if missing:
            _play(config, tasks, missing, store)
        profile = _profile(config, tasks, store)
    write_profile(profile, config.output_dir / PROFILE)
    chosen = [task for task in tasks if profile.tasks[task.task_id].in_band(*config.band)]
    return Profiled(profile, tasks, chosen)


def write_chosen(config: ProfileConfig, found: Profiled) -> None:
    """Writes the tasks in the band to ``write_tasks``, if it is given.

    Raises:
        TaskError: there is none.
    """
    if config.write_tasks is None:
        return
    if not found.chosen:
        raise TaskError(
            f"no task lies between {config.band[0]} and {config.band[1]}, so {config.write_tasks} is not "
            "written: give another band, and --resume, which plays nothing again"
        )
    write_tasks(found.chosen, config.write_tasks)


def tables(found: Profiled, band: tuple[float, float]) -> Iterator[Table]:
    """By error class, and by repository: how many tasks lie in the band, and how they are solved."""
    for axis in _AXES:
        parts: dict[str, list[TaskTries]] = {}
        for task in found.tasks:
            parts.setdefault(getattr(task, axis), []).append(found.profile.tasks[task.task_id])
        table = Table(box=None, pad_edge=False, header_style="bold")
        for number, head in enumerate(
            (axis, "tasks", "in band", "success %", "all solved", "never", "unknown")
        ):
            table.add_column(head, justify="right" if number else "left", overflow="fold")
        for name, tries in sorted(parts.items()):
            table.add_row(name, *_cells(shares_of(tries, band)))
        if len(parts) > 1:
            table.add_row(
                "all", *_cells(shares_of(found.profile.tasks.values(), band)), style="bold"
            )
        yield table


def run(argv: list[str]) -> int:
    """Runs ``agentic-gym tasks profile``."""
    path, words = take_config(argv)
    default = None if path is None else read_yaml(ProfileConfig, path)
    config = parse_flags(
        ProfileConfig,
        [word for word in words if word != _RESUME.flag],
        prog="agentic-gym tasks profile",
        default=default,
        switches=[CONFIG_SWITCH, _RESUME],
    )
    found = run_profile(config, resume=_RESUME.flag in words)
    console = Console(width=None if sys.stdout.isatty() else _WIDE)
    for table in tables(found, config.band):
        console.print(table, "")
    low, high = config.band
    print(f"{len(found.chosen)} of {len(found.tasks)} tasks lie between {low} and {high}")
    tries = found.profile.tasks
    if infra := sum(one.infra_errors for one in tries.values()):
        print(f"{infra} episodes ended as infra_error and count as nothing")
    if unknown := [name for name, one in tries.items() if not one.known]:
        more = f" and {len(unknown) - _SHOWN} more" if len(unknown) > _SHOWN else ""
        print(f"unknown, since none of their episodes counts: {', '.join(unknown[:_SHOWN])}{more}")
    print(f"profile: {config.output_dir / PROFILE}")
    write_chosen(config, found)
    if config.write_tasks is not None:
        print(f"tasks in the band: {config.write_tasks}")
    return 0


def _cells(shares: Shares) -> tuple[str, ...]:
    known = shares.tasks - shares.unknown
    in_band = f"{shares.in_band} ({100 * shares.in_band / known:.0f} %)" if known else "-"
    numbers = (shares.all_solved, shares.never_solved, shares.unknown)
    return f"{shares.tasks}", in_band, percent(shares.success), *map(str, numbers)


def _check_places(config: ProfileConfig) -> None:
    """Refuses a file of tasks that could not be written in the end, or that would overwrite what is read."""
    path = config.write_tasks
    if path is None:
        return
    check_folder(path.parent, "write_tasks")
    if path.is_dir():
        raise ConfigError(f"write_tasks={str(path)!r} is a folder: give a file, tasks.jsonl say")
    if path.resolve() == Path(config.tasks).resolve():
        raise ConfigError(
            f"write_tasks={str(path)!r} is the file that the tasks are read from: give another"
        )


@contextmanager
def _opened(config: ProfileConfig, *, resume: bool) -> Iterator[RunStore]:
    """The store in the output folder, new or as it was left."""
    folder = config.output_dir
    began = exists(folder / _CONFIG)
    if not resume:
        if began or exists(folder / "run.sqlite"):
            raise ConfigError(
                f"{folder} already holds a run: give another output_dir, or --resume if it is this profile"
            )
        with claimed(config) as new:
            assert new is not None, "a profile has a folder"
            yield new
        return
    if not began:
        raise ConfigError(
            f"{folder} holds no profile to resume ({_CONFIG} is missing): give its folder, or no --resume"
        )
    try:
        stored = read_yaml(ProfileConfig, folder / _CONFIG)
    except ConfigError as error:
        raise ConfigError(f"{folder} holds no profile to resume: {error}") from error
    _check_same(config, stored)
    dump_config(config, folder / _CONFIG)
    with RunStore(folder) as store:
        yield store


def _check_same(config: ProfileConfig, stored: ProfileConfig) -> None:
    changed = [
        name
        for name in ProfileConfig.model_fields
        if name not in _MAY_CHANGE and getattr(config, name) != getattr(stored, name)
    ]
    if changed:
        raise ConfigError(
            f"{config.output_dir} holds a profile with other settings ({', '.join(changed)}): give them as "
            f"they are in its {_CONFIG}, or another output_dir"
        )
    if config.samples < stored.samples:
        raise ConfigError(
            f"samples={config.samples} are fewer than the {stored.samples} that the profile in "
            f"{config.output_dir} began with: give as many or more, or another output_dir"
        )


def _check_tasks(tasks: Sequence[SWETask], store: RunStore) -> None:
    """Refuses tasks that are not those that the profile began with: under equal ids, others may be played."""
    lines = "\n".join(sorted(task.model_dump_json() for task in tasks))
    now = hashlib.sha256(lines.encode()).hexdigest()
    if store.get_state("tasks", now) != now:
        raise ConfigError(
            "the tasks have changed since this profile began: profile them anew, in another output_dir"
        )
    store.put_state("tasks", now)


def _play(
    config: ProfileConfig, tasks: Sequence[SWETask], launches: Sequence[Launch], store: RunStore
) -> None:
    store.launch(
        [
            LaunchRecord(one.trajectory_id, one.task_id, one.group_id, one.seed, version=0)
            for one in launches
        ]
    )
    with (
        players(config, tasks) as agents,
        Rollout(
            env_factory(config, tasks),
            agents,
            concurrency=min(config.concurrency, len(launches)),
        ) as rollout,
    ):
        rollout.collect(launches, description="profile", on_finished=store.finish)


def _profile(config: ProfileConfig, tasks: Sequence[SWETask], store: RunStore) -> DifficultyProfile:
    outcomes: dict[str, list[Outcome]] = {task.task_id: [] for task in tasks}
    for trajectory in store.finished():
        outcomes[trajectory.task_id].append(trajectory.outcome)
    return DifficultyProfile(
        model=config.agent,
        task_set=config.tasks,
        split=config.split or None,
        samples=config.samples,
        temperature=None if config.agent in BASELINES else config.temperature,
        seed=config.seed,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        tasks=count_tries(outcomes),
    )


def count_tries(outcomes: Mapping[str, Sequence[Outcome]]) -> dict[str, TaskTries]:
    """Counts the outcomes of each task; ``infra_error`` is neither solved nor failed."""
    found = {}
    for name, every in outcomes.items():
        infra = sum(outcome is Outcome.INFRA_ERROR for outcome in every)
        solved = sum(outcome is Outcome.SOLVED for outcome in every)
        found[name] = TaskTries.of(solved, len(every) - infra, infra)
    return found
