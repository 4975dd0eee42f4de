from __future__ import annotations

import math

import pytest

from agentic_gym.errors import ConfigError
from agentic_gym.trainers.selection.base import GroupResult, TaskFacts
from agentic_gym.trainers.selection.posterior import Posteriors
from agentic_gym.trainers.selection.refill import Refill, Verdict, carries_signal

EQUAL, MIXED = [1.0, 1.0], [0.0, 1.0]


def judge(refill: Refill, group: int, rewards: list[float]) -> Verdict:
    solved = sum(reward > 0 for reward in rewards)
    return refill.judge(GroupResult(group, "t", solved, len(rewards)), rewards)


@pytest.mark.parametrize(
    ("rewards", "signal"),
    [
        ([], True),
        ([1.0], True),
        ([0.0, 0.0], False),
        ([0.1 + 0.2, 0.3], False),  # equal but for rounding
        ([0.3, 0.31], True),
        ([math.nan, 0.0], True),  # not ours to hide
    ],
)
def test_what_carries_a_signal(rewards: list[float], signal: bool) -> None:
    assert carries_signal(rewards) is signal


def test_equal_groups_are_refused_up_to_the_cap() -> None:
    refill = Refill(max_in_a_row=2)
    rows = [EQUAL, EQUAL, EQUAL, EQUAL, MIXED, EQUAL, EQUAL, EQUAL]
    reasons = [judge(refill, group, rewards).reason for group, rewards in enumerate(rows)]
    no = "zero_variance"
    assert reasons == [no, no, "cap", no, "signal", no, no, "cap"]
    assert refill.metrics() == {"refill_refused": 5 / 8, "refill_kept_by_cap": 2 / 8}


def test_a_cap_of_0_refuses_nothing() -> None:
    assert judge(Refill(max_in_a_row=0), 0, EQUAL) == Verdict(True, "cap")
    with pytest.raises(ConfigError, match="max_in_a_row=-1"):
        Refill(max_in_a_row=-1)


def test_refused_groups_are_handed_over_once_by_number() -> None:
    refill = Refill()
    for group in (5, 3, 4):
        judge(refill, group, MIXED if group == 4 else EQUAL)
    assert refill.take_refused() == [
        GroupResult(3, "t", 2, 2, trained=False),
        GroupResult(5, "t", 2, 2, trained=False),
    ]
    assert refill.take_refused() == []


def test_without_the_refused_groups_a_posterior_would_be_wrong() -> None:
    """Of a task that is solved nearly always, the mixed groups alone look like one of 3 in 4."""
    groups = [GroupResult(i, "t", 3 if i % 5 == 0 else 4, 4) for i in range(20)]
    refill, whole, mixed = Refill(), *(Posteriors([TaskFacts("t")]) for _ in range(2))
    kept = [r for r in groups if refill.judge(r, [1.0] * r.solved + [0.0] * (4 - r.solved)).keep]
    mixed.observe(1, kept)
    whole.observe(1, kept + refill.take_refused())
    assert whole.mean()[0] == pytest.approx(0.95, abs=0.01)
    assert mixed.mean()[0] < 0.8


def test_refused_groups_survive_a_restart() -> None:
    first, second = Refill(), Refill()
    judge(first, 3, EQUAL)
    second.load_state_dict(first.state_dict())
    assert judge(second, 3, EQUAL) == Verdict(False, "zero_variance")
    assert second.take_refused() == first.take_refused()
