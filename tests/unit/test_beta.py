from __future__ import annotations

import math

import pytest

from agentic_gym.beta import beta_cdf, beta_interval, beta_mass
from agentic_gym.errors import ConfigError


def test_known_values_of_the_incomplete_beta_function() -> None:
    assert beta_cdf(1, 1, 0.3) == pytest.approx(0.3, abs=1e-14)
    assert beta_cdf(2, 1, 0.3) == pytest.approx(0.09, abs=1e-14)
    assert beta_cdf(0.5, 0.5, 0.25) == pytest.approx(1 / 3, abs=1e-14)  # arcsine law
    # I_p(k, n − k + 1) is the chance of k or more successes in n tries.
    chance = sum(math.comb(9, k) * 0.4**k * 0.6 ** (9 - k) for k in range(3, 10))
    assert beta_cdf(3, 7, 0.4) == pytest.approx(chance, abs=1e-14)
    assert (beta_cdf(2, 3, -1), beta_cdf(2, 3, 0), beta_cdf(2, 3, 1), beta_cdf(2, 3, 2)) == (
        0,
        0,
        1,
        1,
    )
    with pytest.raises(ConfigError, match="no distribution"):
        beta_cdf(0, 1, 0.5)


def test_a_narrow_posterior_is_in_the_band_or_is_not() -> None:
    assert beta_mass(500, 500, 0.2, 0.8) == pytest.approx(1.0, abs=1e-12)
    assert beta_mass(9_500, 500, 0.2, 0.8) < 1e-12
    assert beta_mass(3, 3, 0.8, 0.2) == 0.0


def test_an_interval_leaves_the_same_on_both_sides() -> None:
    interval = beta_interval(3.5, 8.0, confidence=0.9)
    assert interval.value == pytest.approx(3.5 / 11.5)
    assert beta_cdf(3.5, 8.0, interval.low) == pytest.approx(0.05, abs=1e-9)
    assert beta_cdf(3.5, 8.0, interval.high) == pytest.approx(0.95, abs=1e-9)
    with pytest.raises(ConfigError, match="confidence=1"):
        beta_interval(1, 1, confidence=1)
