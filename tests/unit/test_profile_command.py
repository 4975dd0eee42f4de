"""``agentic-gym tasks profile`` where nothing is left to play; the playing is tested in integration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from agentic_gym.config import dump_config
from agentic_gym.difficulty import read_profile
from agentic_gym.envs.swe.eval_command import EvalConfig
from agentic_gym.envs.swe.pocket import load_tasks
from agentic_gym.envs.swe.profile_command import (
    ProfileConfig,
    count_tries,
    run,
    run_profile,
    write_chosen,
)
from agentic_gym.envs.swe.task import write_tasks
from agentic_gym.errors import ConfigError, TaskError
from agentic_gym.evaluation import make_launches
from agentic_gym.store import LaunchRecord, RunStore
from agentic_gym.types import Outcome, Trajectory

SOLVED, FAILED, BROKEN = Outcome.SOLVED, Outcome.FAILED, Outcome.INFRA_ERROR
TASKS = load_tasks("pocket", "dev")[:3]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a set of three tasks lies."""
    write_tasks(TASKS, tmp_path / "set.jsonl")
    return tmp_path


def config_of(folder: Path, **change: Any) -> ProfileConfig:
    given = {
        "agent": "noop", "tasks": str(folder / "set.jsonl"), "split": "dev", "samples": 4,
        "backend": "unsafe", "allow_unsafe": True, "output_dir": folder / "out",
    }  # fmt: skip
    return ProfileConfig(**given | change)


def record(config: ProfileConfig, outcomes: Mapping[str, Sequence[Outcome]]) -> None:
    """What a killed profile leaves behind: its settings, and the episodes that were finished."""
    dump_config(config, config.output_dir / "config.yaml")
    launches = make_launches(
        list(outcomes), samples_per_task=config.samples, seed=config.seed, name="profile"
    )
    with RunStore(config.output_dir) as store:
        store.launch(
            [
                LaunchRecord(one.trajectory_id, one.task_id, one.group_id, one.seed, 0)
                for one in launches
            ]
        )
        for one in launches:
            store.finish(
                Trajectory(
                    trajectory_id=one.trajectory_id,
                    task_id=one.task_id,
                    group_id=one.group_id,
                    seed=one.seed,
                    prompt="",
                    turns=(),
                    tokens=None,
                    outcome=outcomes[one.task_id][int(one.trajectory_id[-1])],
                    terminated=True,
                    truncated=False,
                )
            )


HARD = dict(
    zip(
        (task.task_id for task in TASKS),
        ([FAILED] * 4, [SOLVED, BROKEN, FAILED, SOLVED], [BROKEN] * 4),
        strict=True,
    )
)


def test_every_outcome_but_infra_errors_counts() -> None:
    tries = count_tries({"a": [SOLVED, Outcome.TRUNCATED, Outcome.SUSPECTED_HACK, BROKEN, FAILED]})
    assert (tries["a"].solved, tries["a"].total, tries["a"].infra_errors) == (1, 4, 1)


def test_what_is_played_is_counted_and_the_band_is_written(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = config_of(folder, write_tasks=folder / "new" / "band.jsonl")
    record(config, HARD)
    dump_config(config, folder / "same.yaml")
    assert run(["--config", str(folder / "same.yaml"), "--resume"]) == 0
    profile = read_profile(folder / "out" / "profile.json")
    counts = [(one.solved, one.total, one.infra_errors) for one in profile.tasks.values()]
    assert counts == [(0, 4, 0), (2, 3, 1), (0, 0, 4)]
    assert (profile.model, profile.samples, profile.temperature) == ("noop", 4, None)
    assert load_tasks(folder / "new" / "band.jsonl") == [TASKS[1]]
    said = capsys.readouterr().out
    assert "1 of 3 tasks lie between 0.2 and 0.8" in said
    assert "5 episodes ended as infra_error" in said
    assert f"unknown, since none of their episodes counts: {TASKS[2].task_id}\n" in said
    rows = [line.split() for line in said.splitlines()]
    assert ["all", "3", "1", "(50", "%)"] in [row[:5] for row in rows]
    assert next(row for row in rows if row[:1] == ["all"])[-3:] == ["0", "1", "1"]


def test_another_band_plays_nothing_again(folder: Path) -> None:
    record(config_of(folder), HARD)
    found = run_profile(config_of(folder, band=(0.0, 0.2), concurrency=3), resume=True)
    assert [task.task_id for task in found.chosen] == [TASKS[0].task_id]
    empty = config_of(folder, band=(0.7, 0.8), write_tasks=folder / "none.jsonl")
    with pytest.raises(TaskError, match=r"no task lies between 0.7 and 0.8.*another band"):
        write_chosen(empty, run_profile(empty, resume=True))
    assert not (folder / "none.jsonl").exists()


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"seed": 1}, r"other settings \(seed\)"),
        ({"agent": "gold", "max_turns": 3}, r"other settings \(agent, max_turns\)"),
        ({"samples": 3}, r"samples=3 are fewer than the 4"),
    ],
)
def test_other_episodes_are_no_continuation(
    folder: Path, change: dict[str, Any], match: str
) -> None:
    record(config_of(folder), HARD)
    with pytest.raises(ConfigError, match=match):
        run_profile(config_of(folder, **change), resume=True)


def test_tasks_that_changed_under_their_ids_are_refused(folder: Path) -> None:
    config = config_of(folder)
    record(config, HARD)
    run_profile(config, resume=True)
    changed = TASKS[0].model_copy(update={"problem_statement": "Something else."})
    write_tasks([changed, *TASKS[1:]], folder / "set.jsonl")
    with pytest.raises(ConfigError, match="the tasks have changed"):
        run_profile(config, resume=True)


def test_a_folder_is_taken_up_only_as_what_it_is(folder: Path) -> None:
    config = config_of(folder)
    with pytest.raises(ConfigError, match="no profile to resume"):
        run_profile(config, resume=True)
    assert not config.output_dir.exists()
    dump_config(EvalConfig(agent="noop"), config.output_dir / "config.yaml")
    with pytest.raises(ConfigError, match=r"no profile to resume: .*unknown key"):
        run_profile(config, resume=True)
    with pytest.raises(ConfigError, match=r"already holds a run: .* or --resume"):
        run_profile(config)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"band": (0.8, 0.2)}, r"band.low=0.8 and band.high=0.2"),
        ({"band": (0.2, 1.5)}, r"band"),
        ({"samples": 1}, r"samples=1 cannot tell .* Give 2 samples"),
        ({"agent": "a/model", "temperature": 0.0}, r"temperature=0 plays every sample .* alike"),
        ({"agent": "noop", "temperature": 0.5}, r"temperature=0.5 is read only when"),
    ],
)
def test_settings_that_tell_nothing_are_refused(
    folder: Path, change: dict[str, Any], match: str
) -> None:
    with pytest.raises(ConfigError, match=match):
        config_of(folder, **change)


@pytest.mark.parametrize(
    ("name", "match"),
    [(".", "is a folder"), ("set.jsonl", "are read from"), ("set.jsonl/x", "write_tasks=")],
)
def test_a_file_that_must_not_be_written_is_refused_before_anything_is_played(
    folder: Path, name: str, match: str
) -> None:
    with pytest.raises(ConfigError, match=match):
        run_profile(config_of(folder, write_tasks=folder / name))
    assert not (folder / "out").exists()


def test_words_of_the_command_line(folder: Path) -> None:
    with pytest.raises(ConfigError, match="Did you mean '--resume'"):
        run(["--agent", "noop", "--resum"])
    with pytest.raises(ConfigError, match="agent='nop' is none of"):
        run(["--agent", "nop", "--output-dir", str(folder / "out")])
    assert not (folder / "out").exists()
