from __future__ import annotations

import pytest

from agentic_gym.trainers.rollout_metrics import RolloutMetrics


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_shares_are_of_the_time_that_has_passed() -> None:
    clock = Clock()
    metrics = RolloutMetrics(clock)
    for number in range(1, 101):
        metrics.ended(float(number), queued=2.0 * number, parked=0.0)
    metrics.ended(150.0, queued=0.0, parked=800.0)
    for busy in (True, True, False, True):
        metrics.sample(busy=busy, active=8)
    metrics.trainer_waited(5.0)
    metrics.published(0.5, 1e-5)
    metrics.published(0.2, 3e-5)
    metrics.broke()
    metrics.count("retries")
    metrics.count("migrations")
    metrics.count("migrations")
    clock.now = 50.0
    found = metrics.summary([])
    assert found["trainer_idle_share"] == pytest.approx(0.1)
    assert found["engine_idle_share"] == pytest.approx(0.25)
    assert found["active_episodes"] == 8
    assert found["episodes_per_s"] == pytest.approx(101 / 50)
    assert found["parked_share"] == pytest.approx(800 / (5050 + 150 + 800))
    assert found["episode_s_p50"] == 51
    assert found["episode_s_p99"] == 100
    assert found["queue_wait_s_p90"] == 180
    assert (found["publish_s"], found["publish_gap"]) == (0.5, 3e-5)
    assert (found["infra_errors"], found["retries"], found["migrations"]) == (1, 1, 2)
    assert found["dropped"] == 0


def test_nothing_measured_is_nothing_said() -> None:
    found = RolloutMetrics().summary([])
    assert found["parked_share"] == found["trainer_idle_share"] == 0
    assert not {"engine_idle_share", "publish_s", "episode_s_p50"} & found.keys()
    assert not any(name.startswith("relay_") for name in found)


def test_replicas_are_lent_until_they_are_given_back() -> None:
    metrics = RolloutMetrics()
    metrics.assigned(1, "train")
    metrics.assigned(2, "train")
    metrics.assigned(1, "generate")
    assert metrics.lent == {2}


def test_relays_are_measured_from_push_to_push() -> None:
    metrics = RolloutMetrics()
    metrics.pushed(0.2)
    found = metrics.summary([])
    assert (found["relay_push_s"], found["relay_rebuilds"]) == (0.2, 0)
    assert "relay_spread_s" not in found  # some relay has them not yet
    metrics.pushed(0.5)
    metrics.pushed(0.3)
    metrics.spread(2.0)
    metrics.spread(1.0)
    metrics.rebuilt()
    found = metrics.summary([])
    assert (found["relay_push_s"], found["relay_spread_s"], found["relay_rebuilds"]) == (0.5, 2, 1)
