"""What an update holds beside its batch: the batch on the device, and scaled learning rates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from agentic_gym.trainers.experience import Experience
from agentic_gym.trainers.value_head import VALUE_GROUP


@dataclass(frozen=True, slots=True, eq=False)
class Flat:
    """The flat arrays on the device, in float32."""

    behaviour: Tensor
    proximal: Tensor
    reference: Tensor | None
    values: Tensor
    advantages: Tensor
    returns: Tensor
    value_mask: Tensor

    @classmethod
    def of(cls, experience: Experience, device: torch.device) -> Flat:
        """Of a batch that is scored and estimated."""

        def tensor(array: Any) -> Tensor:
            return torch.as_tensor(array, dtype=torch.float32, device=device)

        return cls(
            behaviour=tensor(experience.behaviour),
            proximal=tensor(experience.proximal),
            reference=tensor(experience.reference) if len(experience.reference) else None,
            values=tensor(experience.values),
            advantages=tensor(experience.advantages),
            returns=tensor(experience.returns),
            value_mask=torch.as_tensor(experience.value_mask, device=device),
        )


class ScaledRates:
    """Multiplies the learning rates of policy and value head for the length of a block."""

    def __init__(self, optimizer: torch.optim.Optimizer, *, policy: float, value: float) -> None:
        self._groups: Sequence[dict[str, Any]] = optimizer.param_groups
        self._factors = {False: policy, True: value}
        self._before: list[float] = []

    def __enter__(self) -> None:
        self._before = [group["lr"] for group in self._groups]
        for group in self._groups:
            group["lr"] = group["lr"] * self._factors[group.get(VALUE_GROUP, False)]

    def __exit__(self, *_: object) -> None:
        for group, rate in zip(self._groups, self._before, strict=True):
            group["lr"] = rate
