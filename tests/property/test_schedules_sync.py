"""The synchronous schedule under everything that can happen."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_gym.trainers.schedules.checking import Promises, Weather, check_schedule
from agentic_gym.trainers.schedules.sync import Sync


@settings(deadline=None, derandomize=True, max_examples=100)
@given(
    seed=st.integers(0, 10**6),
    groups=st.integers(1, 4),
    group_size=st.integers(1, 3),
    replicas=st.integers(1, 3),
    slots=st.integers(1, 16),
    stage=st.booleans(),
    weather=st.builds(
        Weather,
        failure=st.sampled_from([0.0, 0.1, 0.4]),
        death=st.sampled_from([0.0, 0.05]),
        restart=st.sampled_from([0.0, 0.05]),
        echo=st.sampled_from([0.0, 0.3]),
        refusal=st.sampled_from([0.0, 0.3]),
    ),
)
def test_the_contract_holds_and_every_token_is_fresh(
    seed: int,
    groups: int,
    group_size: int,
    replicas: int,
    slots: int,
    stage: bool,
    weather: Weather,
) -> None:
    size = groups * group_size
    report = check_schedule(
        lambda: Sync(size, group_size, max_retries=1, max_lost_groups=10**6, stage=stage),
        Promises(size, group_size, max_staleness=0, max_wait=0, single_version=True),
        weather=weather,
        seed=seed,
        updates=8,
        slots=slots,
        replicas=replicas,
        calm_first=False,
    )
    assert all(list(batch) == sorted(batch) for batch in report.batches)
