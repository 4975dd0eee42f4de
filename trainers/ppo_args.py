"""From the configuration of a run to that of its trainer: made once early, so that it is refused early."""

from __future__ import annotations

from pathlib import Path

from agentic_gym.errors import ConfigError
from agentic_gym.trainers.config import AgenticPPOConfig
from agentic_gym.trainers.learning import credit_of
from agentic_gym.trainers.run_config import TrainConfig

_SAME = (
    "learning_rate value_learning_rate ppo_epochs minibatch_size gamma gae_lambda "
    "entropy_coef kl_coef target_kl value_warmup_updates ramp_updates stream"
)
"""Keys of ``ppo`` that the trainer's settings have under the same name."""


def ppo_args(config: TrainConfig, folder: Path) -> AgenticPPOConfig:
    """Settings of a run's trainer.

    Args:
        config: of the run; ``ppo.updates`` is positive.
        folder: of the checkpoints; nothing is written there.

    Raises:
        ConfigError: a setting is unknown, out of range, said twice, or does not fit the others.
    """
    ppo = config.ppo
    values = {name: getattr(ppo, name) for name in _SAME.split()}
    values |= {
        "advantage": credit_of(config).estimator,
        "output_dir": str(folder),
        "max_steps": ppo.updates,
        "save_steps": ppo.save_every,
        "temperature": config.rollout.temperature,
        "seed": config.seed,
        "report_to": ppo.report_to or "none",
    }
    taken = sorted(values.keys() & ppo.extra.keys())
    if taken:
        raise ConfigError(f"ppo.extra sets {taken[0]!r}, which has a key of its own")
    if ppo.stream and ppo.minibatch_size < ppo.episodes_per_update:
        raise ConfigError(
            "ppo.stream takes one optimiser step a batch: ppo.minibatch_size="
            f"{ppo.minibatch_size} must be at least ppo.episodes_per_update={ppo.episodes_per_update}"
        )
    try:
        return AgenticPPOConfig(**values, **ppo.extra)
    except TypeError as error:  # a dataclass says which argument it does not know
        raise ConfigError(f"ppo.extra: {error}") from error
