"""What ``--dry-run`` says before anything is loaded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from agentic_gym.errors import ConfigError
from agentic_gym.rewards.credit.base import CreditBatch, Floats, Invariance, batch_of
from agentic_gym.trainers.preflight import assigned, preflight
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


class Part:
    """A credit part of a user's, that answers what it is given."""

    invariance = Invariance.NOTHING
    needs_attention = False

    def __init__(self, answer: Floats | Exception) -> None:
        self._answer = answer

    def assign(self, batch: CreditBatch, rewards_N: Floats) -> Floats:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (KeyError("mine"), "credit part Part broke on 0 episodes: KeyError: 'mine'"),
        (np.zeros(2), "credit part Part gave rewards of shape (2,) for 3 sampled tokens"),
        (np.array([0.0, np.nan, np.inf]), "gave 2 rewards of 3 that are not finite"),
        (ConfigError("says so itself"), "says so itself"),
    ],
)
def test_a_credit_part_that_breaks_is_named(answer: Floats | Exception, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        assigned(Part(answer), batch_of([]), np.zeros(3))
    assert said in str(refused.value)
    assert assigned(Part(np.ones(3)), batch_of([]), np.zeros(3)).tolist() == [1, 1, 1]
