from __future__ import annotations

import random

import pytest

from agentic_gym.errors import ConfigError
from agentic_gym.trainers.schedules.repack import Move, ReplicaUse, is_idle, plan_repack


def use(
    replica: int,
    requests: int,
    kv_used: int,
    *,
    version: int = 0,
    previous: int = 1000,
    capacity: int = 100,
) -> ReplicaUse:
    return ReplicaUse(replica, version, requests, kv_used, previous, capacity)


def test_the_least_used_moves_to_where_the_largest_load_results() -> None:
    assert plan_repack([use(0, 3, 50), use(1, 1, 10), use(2, 2, 30)], 8) == [Move(1, 0), Move(2, 0)]


@pytest.mark.parametrize(
    ("replica", "idle"),
    [
        (use(0, 1, 10), True),
        (use(0, 1, 10, previous=10), False),  # not going down
        (use(0, 1, 100), False),  # full
        (use(0, 4, 10), False),  # at the roofline
        (use(0, 0, 0), False),  # nothing to move
    ],
)
def test_only_what_drains_is_idle(replica: ReplicaUse, idle: bool) -> None:
    assert is_idle(replica, 4) is idle
    assert plan_repack([replica, use(1, 1, 40, previous=40)], 4) == ([Move(0, 1)] if idle else [])


def test_one_that_does_not_drain_can_receive() -> None:
    assert plan_repack([use(0, 1, 10), use(1, 5, 80, previous=80)], 8) == [Move(0, 1)]


def test_neither_the_cache_nor_the_roofline_is_overrun() -> None:
    assert plan_repack([use(0, 1, 30), use(1, 1, 71)], 8) == []
    assert plan_repack([use(0, 1, 30), use(1, 1, 70)], 8) == [Move(0, 1)]
    assert plan_repack([use(0, 4, 10), use(1, 5, 20)], 8) == []
    assert plan_repack([use(0, 4, 10), use(1, 4, 20)], 8) == [Move(0, 1)]


def test_the_fullest_is_passed_over_where_it_has_no_room() -> None:
    replicas = [use(0, 1, 20), use(1, 1, 40), use(2, 1, 90, previous=90)]
    assert plan_repack(replicas, 8) == [Move(0, 1)]


def test_what_has_received_is_not_moved_on() -> None:
    # 0 goes to 1, the fullest with room for it. 1 alone would have found room on 2.
    replicas = [use(0, 3, 10), use(1, 1, 20), use(2, 2, 30)]
    assert plan_repack(replicas, 4) == [Move(0, 1)]


def test_an_empty_replica_receives_nothing() -> None:
    assert plan_repack([use(0, 1, 10), use(1, 0, 0)], 8) == []


def test_versions_do_not_mix() -> None:
    assert plan_repack([use(0, 1, 10, version=3), use(1, 1, 20, version=4)], 8) == []


def test_each_destination_has_its_own_capacity() -> None:
    replicas = [use(0, 1, 20), use(1, 1, 50, capacity=60), use(2, 1, 30, capacity=200)]
    assert plan_repack(replicas, 8) == [Move(0, 2), Move(1, 2)]


def test_ties_go_to_the_lower_number_whatever_the_order_given() -> None:
    replicas = [use(number, 1, 40) for number in range(5)]
    expected = [Move(0, 1), Move(2, 3)]
    for seed in range(5):
        random.Random(seed).shuffle(replicas)
        assert plan_repack(replicas, 8) == expected


def test_a_replica_given_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"replicas \[1, 1\]: give each of them once"):
        plan_repack([use(1, 1, 10), use(1, 1, 20)], 8)


def test_a_batch_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="roofline_batch=0 must be positive"):
        plan_repack([], 0)
