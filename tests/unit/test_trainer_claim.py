"""A run folder is taken up by its own configuration only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentic_gym.config import dump_config
from agentic_gym.errors import ConfigError
from agentic_gym.trainers.pipeline import CONFIG_FILE, Pipeline
from agentic_gym.trainers.run_config import TrainConfig


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ({"seed": 3}, {"seed": 4}, "seed: 3 before, 4 now"),
        ({"ppo": {"updates": 5}}, {"ppo": {"updates": 3}}, "ppo.updates: 5 before, 3 now"),
        ({"ppo": {"updates": 5}}, {"ppo": {"updates": 9}}, "ppo.updates: 5 before, 9 now"),
        (
            {"schedule": "bounded_async", "schedule_options": {"max_staleness": 2}},
            {"schedule": "bounded_async", "schedule_options": {"max_retries": 1}},
            "schedule_options.max_staleness: 2 before, absent now; "
            "schedule_options.max_retries: absent before, 1 now",
        ),
        (
            {"evaluations": {"dev": {"samples": 1}}, "rollout": {"concurrency": 4}},
            {"evaluations": {"dev": {"samples": 2}}, "rollout": {"concurrency": 5}},
            "rollout.concurrency: 4 before, 5 now; evaluations.dev.samples: 1 before, 2 now",
        ),
        (
            {"env": {"options": {"name": "x" * 200}}},
            {"env": {"options": {"name": "y"}}},
            f"env.options.name: '{'x' * 79} … before, 'y' now",
        ),
    ],
)
def test_what_differs_is_named_with_its_key_and_both_values(
    tmp_path: Path, before: dict[str, Any], now: dict[str, Any], said: str
) -> None:
    dump_config(TrainConfig(output_dir=tmp_path, **before), tmp_path / CONFIG_FILE)
    with pytest.raises(ConfigError) as refused:
        Pipeline(TrainConfig(output_dir=tmp_path, **now), resume=True)
    assert f"(different: {said})" in str(refused.value)
