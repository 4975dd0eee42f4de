"""The configuration of a run as far as rules ask for it, read without building its classes.

``TrainConfig`` itself would load torch, and would refuse the file of a run that an older release began.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from agentic_gym.errors import ConfigError
from agentic_gym.rewards.credit.plan import ESTIMATORS

CONFIG_NAME = "config.yaml"


class Settings:
    """What ``config.yaml`` says; nothing where a run has none.

    Args:
        values: nested, as in the file.
    """

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        self._values = dict(values or {})

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a dotted key.

        >>> Settings({"ppo": {"gamma": 0.9}}).get("ppo.gamma")
        0.9
        """
        value: Any = self._values
        for part in key.split("."):
            if not isinstance(value, Mapping) or part not in value:
                return default
            value = value[part]
        return value

    def number(self, key: str, default: float | None = None) -> float | None:
        """The value of a key if it is a number (``1e-4`` is text to YAML 1.1, and a number to us)."""
        try:
            return float(self.get(key))
        except (TypeError, ValueError):
            return default

    @property
    def credit(self) -> tuple[str, ...]:
        """Parts of the credit, if known."""
        name = self.get("credit")
        return tuple(name.split("+")) if isinstance(name, str) else ()

    @property
    def estimator(self) -> str | None:
        """What makes advantages, if known."""
        parts = self.credit
        return next((part for part in parts if part in ESTIMATORS), "turn_gae") if parts else None

    @property
    def schedule(self) -> str | None:
        """Name of the schedule, if known."""
        name = self.get("schedule")
        return name if isinstance(name, str) else None


def read_settings(folder: Path) -> Settings:
    """Those of a run folder.

    Raises:
        ConfigError: there is a configuration, and it cannot be read.
    """
    path = folder / CONFIG_NAME
    if not path.exists():
        return Settings()
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path} must hold keys and values, not {str(values)[:80]!r}")
    return Settings(values)
