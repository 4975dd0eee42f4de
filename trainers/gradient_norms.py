"""Where in the model a gradient is large: its norm by part of the model.

One norm of the whole gradient says that something exploded; these say whether it began in a router, in the
output layer or in a block, which is what tells precision from a bad batch (docs/diagnosis.md).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from agentic_gym.trainers.model_parts import PREFIX, part_of


def layer_norms(model: nn.Module) -> dict[str, float]:
    """L2 norm of the gradient of each part that has one. Call it before gradients are clipped.

    Norms are taken in float32 whatever the gradients are, and read from the device once.

    Args:
        model: after the backward pass.

    Returns:
        Norms by :func:`~agentic_gym.trainers.model_parts.part_of`; parts without gradient (frozen, or not
        trained yet) are left out.
    """
    squares: dict[str, list[Tensor]] = defaultdict(list)
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            norm = torch.linalg.vector_norm(parameter.grad.detach(), dtype=torch.float32)
            squares[part_of(name)].append(norm.square())
    if not squares:
        return {}
    totals = torch.stack([torch.stack(parts).sum().sqrt() for parts in squares.values()])
    return dict(zip(squares, totals.tolist(), strict=True))


def mean_norms(steps: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Means over the optimiser steps of an update, as metrics.

    Args:
        steps: of :func:`layer_norms`, one an optimiser step.
    """
    found: dict[str, list[float]] = defaultdict(list)
    for step in steps:
        for name, norm in step.items():
            found[name].append(norm)
    return {f"{PREFIX}{name}": sum(norms) / len(norms) for name, norms in found.items()}
