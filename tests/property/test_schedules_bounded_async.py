"""Bounded asynchrony under everything that can happen."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_gym.trainers.schedules.bounded_async import BoundedAsync
from agentic_gym.trainers.schedules.checking import Promises, Weather, check_schedule

WEATHER = st.builds(
    Weather,
    failure=st.sampled_from([0.0, 0.1, 0.4]),
    death=st.sampled_from([0.0, 0.05]),
    restart=st.sampled_from([0.0, 0.05]),
    echo=st.sampled_from([0.0, 0.3]),
    refusal=st.sampled_from([0.0, 0.3]),
)


def heavy_tail(rng: random.Random) -> float:
    """Few episodes outlive many updates: the bound is broken at once where nobody waits for them."""
    return rng.uniform(3.0, 9.0) if rng.random() < 0.1 else rng.lognormvariate(-1.5, 0.5)


@settings(deadline=None, derandomize=True, max_examples=150)
@given(
    seed=st.integers(0, 10**6),
    groups=st.integers(1, 4),
    group_size=st.integers(1, 3),
    staleness=st.integers(0, 4),
    concurrent=st.integers(0, 30),
    replicas=st.integers(1, 3),
    slots=st.integers(1, 24),
    train_seconds=st.sampled_from([0.05, 0.5]),
    weather=WEATHER,
)
def test_the_contract_holds_and_no_token_is_staler_than_allowed(
    seed: int,
    groups: int,
    group_size: int,
    staleness: int,
    concurrent: int,
    replicas: int,
    slots: int,
    train_seconds: float,
    weather: Weather,
) -> None:
    size = groups * group_size
    retried = weather.failure or weather.restart  # such a one may be sampled anew, later
    check_schedule(
        lambda: BoundedAsync(
            size,
            group_size,
            max_staleness=staleness,
            max_concurrent=group_size + concurrent,
            max_retries=1,
            max_lost_groups=10**6,
        ),
        Promises(
            size,
            group_size,
            max_staleness=staleness,
            max_wait=None if retried else staleness,
        ),
        weather=weather,
        seed=seed,
        updates=12,
        slots=slots,
        replicas=replicas,
        length=heavy_tail,
        train_seconds=train_seconds,
        calm_first=False,
    )
