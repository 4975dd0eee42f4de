"""A profile that was made for other tasks."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentic_gym.difficulty import DifficultyProfile, TaskTries, write_profile
from agentic_gym.errors import ConfigError
from agentic_gym.trainers.pipeline import Pipeline
from agentic_gym.trainers.run_config import EnvSection, TrainConfig


def test_a_profile_of_other_tasks_is_refused_before_the_folder_is_taken(tmp_path: Path) -> None:
    profile = tmp_path / "profile.json"
    made = DifficultyProfile(
        model="random",
        task_set="pocket",
        split="dev",
        samples=4,
        temperature=None,
        seed=0,
        created="2026-01-01T00:00:00+00:00",
        tasks={"other": TaskTries.of(1, 4)},
    )
    write_profile(made, profile)
    config = TrainConfig(
        output_dir=tmp_path / "run",
        selection="band",
        selection_options={"profile": str(profile)},
        env=EnvSection(id="agentic_gym/SWE-v0", options={"tasks": "pocket"}),
    )
    with pytest.raises(ConfigError, match="knows none of the"):
        Pipeline(config)
    assert not (tmp_path / "run").exists()
