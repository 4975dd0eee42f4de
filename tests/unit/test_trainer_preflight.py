"""What ``--dry-run`` says before anything is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from agentic_gym.errors import ConfigError
from agentic_gym.trainers.preflight import preflight
from agentic_gym.trainers.run_config import PPOSection, RolloutSection, TrainConfig


@pytest.mark.parametrize(
    ("schedule", "replicas", "noted"),
    [
        ("streaming", 1, True),
        ("relay", 1, True),
        ("streaming", 2, False),
        ("bounded_async", 1, False),
    ],
)
def test_a_single_replica_that_must_run_dry_is_noted_and_not_refused(
    schedule: str, replicas: int, noted: bool, tmp_path: Path
) -> None:
    config = TrainConfig(
        output_dir=tmp_path / "never",
        schedule=schedule,
        rollout=RolloutSection(replicas=replicas),
        ppo=PPOSection(extra={"gama": 1}),  # refused next, so that nothing is loaded
    )
    console = Console(width=200)
    with console.capture() as captured, pytest.raises(ConfigError, match="gama"):
        preflight(config, console=console)
    said = captured.get()
    assert f"ok  schedule {schedule}" in said
    assert (f"note  {schedule} works with one replica" in said) is noted
