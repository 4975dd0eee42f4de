"""Numbers that a success rate is worth: intervals, pass@k, paired differences. Pure, numpy alone.

Samples of one task resemble each other, so everything that spans tasks resamples whole tasks (cluster
bootstrap; Cameron, Gelbach & Miller 2008, §3): the interval of 4 samples on 80 tasks is that of about
80 observations, not of 320.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from agentic_gym.errors import ConfigError

K = TypeVar("K", bound=Hashable)
Floats = npt.NDArray[np.float64]

_BLOCK = 2**20  # numbers of one block of bootstrap draws: 8 MB


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with the ends of its interval.

    Attributes:
        value: the estimate; NaN where there was nothing to estimate from.
        low: lower end.
        high: upper end.
    """

    value: float
    low: float
    high: float

    def __format__(self, spec: str) -> str:
        spec = spec or ".3f"
        return f"{self.value:{spec}} [{self.low:{spec}}, {self.high:{spec}}]"


_NOTHING = Interval(math.nan, math.nan, math.nan)


def wilson_interval(successes: int, total: int, *, confidence: float = 0.95) -> Interval:
    """Interval of a share of independent trials (Wilson 1927).

    Unlike the normal approximation it stays within [0, 1] and is honest at 0 of n.

    Raises:
        ConfigError: not 0 ≤ successes ≤ total, or a confidence outside (0, 1).

    Example:
        >>> f"{wilson_interval(0, 10):.2f}"
        '0.00 [0.00, 0.28]'
    """
    _check_confidence(confidence)
    if not 0 <= successes <= total:
        raise ConfigError(f"{successes} successes of {total} trials: give 0 ≤ successes ≤ total")
    if total == 0:
        return _NOTHING
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    share = successes / total
    middle = share + z * z / (2 * total)
    spread = z * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    scale = 1 + z * z / total
    low = 0.0 if successes == 0 else max(0.0, (middle - spread) / scale)
    high = 1.0 if successes == total else min(1.0, (middle + spread) / scale)
    return Interval(share, low, high)


def pass_at_k(samples: int, correct: int, k: int) -> float:
    """Unbiased estimate of the chance that one of k samples is correct: 1 − C(n−c, k) / C(n, k).

    The quotient is a product of n−c choose k factors below 1, so nothing overflows (Chen et al. 2021,
    §2.1).

    Raises:
        ConfigError: not 1 ≤ k ≤ samples, or not 0 ≤ correct ≤ samples.

    Example:
        >>> round(pass_at_k(4, 1, 2), 3)
        0.5
    """
    if not 0 <= correct <= samples:
        raise ConfigError(f"{correct} correct of {samples} samples: give 0 ≤ correct ≤ samples")
    if not 1 <= k <= samples:
        raise ConfigError(f"pass@{k} from {samples} samples: k must be from 1 to the samples drawn")
    wrong = samples - correct
    if wrong < k:
        return 1.0
    return 1.0 - math.prod((wrong - i) / (samples - i) for i in range(k))


def mean_pass_at_k(counts: Sequence[tuple[int, int]], k: int) -> float:
    """Mean pass@k over tasks given as (samples, correct); those with fewer than k samples are left out.

    Returns NaN if no task has k samples.
    """
    values = [pass_at_k(samples, correct, k) for samples, correct in counts if samples >= k]
    return float(np.mean(values)) if values else math.nan


def percentiles(
    values: Sequence[float], levels: Sequence[float] = (50, 90, 99)
) -> dict[str, float]:
    """Percentiles with linear interpolation, as ``{"p50": …}``; NaN for no values.

    Example:
        >>> percentiles([1, 2, 3, 4, 5], levels=(50,))
        {'p50': 3.0}
    """
    names = [f"p{level:g}" for level in levels]
    if not len(values):
        return dict.fromkeys(names, math.nan)
    found = np.percentile(np.asarray(values, dtype=np.float64), list(levels))
    return dict(zip(names, map(float, found), strict=True))


def cluster_mean(
    clusters: Mapping[K, Sequence[float]],
    *,
    confidence: float = 0.95,
    num_draws: int = 10_000,
    seed: int = 0,
) -> Interval:
    """Mean over all values, with a percentile interval that resamples whole clusters.

    Where all clusters are alike (all solved, none solved) a bootstrap has no width, which is not
    certainty: the interval is then Wilson's over clusters for values that are all 0 or all 1, and
    reaches otherwise as far as clusters could, of which a share that Wilson's interval of 0 of n allows is
    different.

    Args:
        clusters: values in [0, 1] by cluster (task); empty clusters are left out.
        confidence: of the interval.
        num_draws: bootstrap draws.
        seed: of the draws; the same seed gives the same interval.
    """
    _check_confidence(confidence)
    sums, sizes = _totals(clusters)
    if not len(sizes):
        return _NOTHING
    value = float(sums.sum() / sizes.sum())
    if _is_constant(sums, sizes):
        return wilson_interval(int(value) * len(sizes), len(sizes), confidence=confidence)
    means = [
        sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
        for drawn in _draws(len(sizes), num_draws, seed)
    ]
    found = _percentile_interval(value, np.concatenate(means), confidence)
    return _widened(found, len(sizes), confidence, lowest=0.0)


def paired_difference(
    before: Mapping[K, Sequence[float]],
    after: Mapping[K, Sequence[float]],
    *,
    confidence: float = 0.95,
    num_draws: int = 10_000,
    seed: int = 0,
) -> Interval:
    """Mean of ``after`` minus mean of ``before`` on the tasks of both, resampling whole tasks.

    Both means are over all samples of the shared tasks, and a drawn task brings both its sides: how
    hard a task is cancels out, as in a paired t-test. Where all values of each side are the same, the
    interval is Newcombe's (1998, method 10) over tasks; where no task stands out otherwise (both sides
    alike on each), it is widened as in :func:`cluster_mean`.

    Args:
        before: values in [0, 1] by task.
        after: values in [0, 1] by task.
        confidence: of the interval.
        num_draws: bootstrap draws.
        seed: of the draws.
    """
    _check_confidence(confidence)
    shared = [task for task in before if task in after and len(before[task]) and len(after[task])]
    if not shared:
        return _NOTHING
    sums_b, sizes_b = _totals({task: before[task] for task in shared})
    sums_a, sizes_a = _totals({task: after[task] for task in shared})
    value = float(sums_a.sum() / sizes_a.sum() - sums_b.sum() / sizes_b.sum())
    if _is_constant(sums_b, sizes_b) and _is_constant(sums_a, sizes_a):
        num = len(shared)
        wilson_b, wilson_a = (
            wilson_interval(int(share) * num, num, confidence=confidence)
            for share in (sums_b[0] / sizes_b[0], sums_a[0] / sizes_a[0])
        )
        return Interval(
            value,
            value - math.hypot(wilson_a.value - wilson_a.low, wilson_b.high - wilson_b.value),
            value + math.hypot(wilson_a.high - wilson_a.value, wilson_b.value - wilson_b.low),
        )
    differences = [
        sums_a[drawn].sum(axis=1) / sizes_a[drawn].sum(axis=1)
        - sums_b[drawn].sum(axis=1) / sizes_b[drawn].sum(axis=1)
        for drawn in _draws(len(shared), num_draws, seed)
    ]
    found = _percentile_interval(value, np.concatenate(differences), confidence)
    return _widened(found, len(shared), confidence, lowest=-1.0)


def _totals(clusters: Mapping[K, Sequence[float]]) -> tuple[Floats, Floats]:
    filled = [values for values in clusters.values() if len(values)]
    sums = np.array([float(np.sum(values)) for values in filled], dtype=np.float64)
    return sums, np.array([len(values) for values in filled], dtype=np.float64)


def _is_constant(sums: Floats, sizes: Floats) -> bool:
    """Whether all values are 0, or all are 1 (given that values lie in [0, 1])."""
    return bool((sums == 0).all() or (sums == sizes).all())


def _draws(num_clusters: int, num_draws: int, seed: int) -> Iterator[npt.NDArray[np.intp]]:
    """Which clusters are drawn, block by block, so that memory stays bounded.  # [draws, clusters]"""
    rng = np.random.default_rng(seed)
    block = max(1, _BLOCK // num_clusters)
    for start in range(0, num_draws, block):
        yield rng.integers(num_clusters, size=(min(block, num_draws - start), num_clusters))


def _percentile_interval(value: float, draws: Floats, confidence: float) -> Interval:
    low, high = np.quantile(draws, [0.5 - confidence / 2, 0.5 + confidence / 2])
    return Interval(value, float(low), float(high))


def _widened(interval: Interval, num: int, confidence: float, *, lowest: float) -> Interval:
    """An interval without width, with that of a share of 0 of ``num`` clusters that are different."""
    if interval.high - interval.low > 1e-12:
        return interval
    reach = wilson_interval(0, num, confidence=confidence).high
    value = interval.value
    return Interval(value, max(lowest, value - reach), min(1.0, value + reach))


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise ConfigError(f"confidence {confidence!r} must lie between 0 and 1, for instance 0.95")
