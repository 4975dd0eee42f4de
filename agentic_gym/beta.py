"""The Beta distribution: how likely a rate is, given how often something was tried and went well.

Written out, since scipy is not needed for anything else.
"""

from __future__ import annotations

import math

from agentic_gym.errors import ConfigError
from agentic_gym.metrics import Interval

_MAX_TERMS = 10_000
_TINY = 1e-300


def beta_mass(alpha: float, beta: float, low: float, high: float) -> float:
    """Probability that a Beta(α, β) number lies between two numbers.

    >>> round(beta_mass(1, 1, 0.2, 0.8), 9)
    0.6

    Args:
        alpha: positive.
        beta: positive.
        low: anything below 0 is 0.
        high: anything above 1 is 1.
    """
    return max(0.0, beta_cdf(alpha, beta, high) - beta_cdf(alpha, beta, low))


def beta_interval(alpha: float, beta: float, *, confidence: float = 0.95) -> Interval:
    """Mean and central interval of Beta(α, β), with as much probability below it as above.

    Raises:
        ConfigError: the confidence is not between 0 and 1.
    """
    if not 0 < confidence < 1:
        raise ConfigError(f"confidence={confidence} must be between 0 and 1")
    tail = (1 - confidence) / 2
    ends = (_quantile(alpha, beta, share) for share in (tail, 1 - tail))
    return Interval(alpha / (alpha + beta), *ends)


def beta_cdf(alpha: float, beta: float, x: float) -> float:
    """The regularised incomplete beta function I_x(α, β): probability that Beta(α, β) is at most x.

    By the continued fraction of DLMF 8.17.22, evaluated as Lentz does; it converges fast below
    (α + 1)/(α + β + 2), and above it I_x(α, β) = 1 − I_{1−x}(β, α).

    Raises:
        ConfigError: α or β is not positive.
    """
    if not (0 < alpha < math.inf and 0 < beta < math.inf):
        raise ConfigError(f"Beta({alpha}, {beta}) is no distribution: both must be positive")
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (alpha + 1) / (alpha + beta + 2):
        return 1.0 - beta_cdf(beta, alpha, 1.0 - x)
    log_front = alpha * math.log(x) + beta * math.log1p(-x) - math.log(alpha)
    log_front += math.lgamma(alpha + beta) - math.lgamma(alpha) - math.lgamma(beta)
    return min(1.0, math.exp(log_front) / _fraction(alpha, beta, x))


def _fraction(a: float, b: float, x: float) -> float:
    """1 + d1/(1 + d2/(1 + …)) of DLMF 8.17.22, by Lentz' method."""
    value, c, d = 1.0, 1.0, 0.0
    for term in range(1, _MAX_TERMS):
        m = term // 2
        if term % 2:
            step = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            step = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1.0 / _away(1.0 + step * d)
        c = _away(1.0 + step / c)
        value *= c * d
        if abs(c * d - 1.0) < 1e-15:
            break
    return value


def _away(value: float) -> float:
    """Not quite 0, which Lentz' method divides by."""
    return value if abs(value) > _TINY else _TINY


def _quantile(alpha: float, beta: float, share: float) -> float:
    low, high = 0.0, 1.0
    while high - low > 1e-12:
        middle = (low + high) / 2
        if beta_cdf(alpha, beta, middle) < share:
            low = middle
        else:
            high = middle
    return (low + high) / 2
