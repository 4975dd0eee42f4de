"""Scaling of advantages, and how well values predict them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def whiten(
    values: Floats, *, mean: float | None = None, std: float | None = None, centre: bool = True
) -> Floats:
    """Shifts to mean 0 and scales to deviation 1; constant input becomes exactly 0 (or keeps its size).

    Args:
        values: what counts, already selected by the mask.  # [N]
        mean: of all devices; None for that of ``values``.
        std: of all devices; None for that of ``values``.
        centre: False scales only.
    """
    if not len(values):
        return values
    mean = float(values.mean()) if mean is None else mean
    std = float(values.std()) if std is None else std
    shifted = values - mean if centre else values
    # A deviation at the level of rounding is no signal: it would be blown up to size 1.
    if std <= 1e-8 * max(1.0, abs(mean)):
        return np.zeros_like(values) if centre else values
    return shifted / std


def explained_variance(values: Floats, returns: Floats) -> float:
    """``1 - Var(returns - values) / Var(returns)``; 0 when the returns do not vary.

    Args:
        values: predictions.  # [N]
        returns: targets.  # [N]
    """
    spread = float(np.var(returns)) if len(returns) else 0.0
    return 0.0 if spread < 1e-12 else 1.0 - float(np.var(returns - values)) / spread
