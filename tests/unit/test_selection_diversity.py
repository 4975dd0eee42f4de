from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from agentic_gym.errors import ConfigError
from agentic_gym.trainers.selection.base import GroupResult, TaskFacts
from agentic_gym.trainers.selection.diversity import Diversity
from agentic_gym.trainers.selection.weighted import WeightedTasks

# 64 of logic, 16 of type, 1 of timeout; repositories "big" (80 tasks) and "small" (1).
TASKS = [
    TaskFacts(f"t{i:02d}", kind, "small" if i == 5 else "big")
    for i, kind in enumerate(["logic"] * 64 + ["type"] * 16 + ["timeout"])
]
KINDS = {task.task_id: task.error_class for task in TASKS}


def drawn(diversity: Diversity, draws: int) -> Counter[str]:
    tasks = WeightedTasks(TASKS, diversity=diversity, explore=0.0, spacing=0)
    return Counter(KINDS[tasks.next_task()] for _ in range(draws))


@pytest.mark.parametrize(
    ("power", "weights"), [(1.0, (64, 16, 1)), (0.5, (8, 4, 1)), (0.0, (1, 1, 1))]
)
def test_shares_are_tempered_sizes(power: float, weights: tuple[int, int, int]) -> None:
    diversity = Diversity(TASKS, class_power=power, strength=1.0)
    expected = {
        k: w / sum(weights) for k, w in zip(["logic", "type", "timeout"], weights, strict=True)
    }
    assert diversity.shares == pytest.approx(expected)
    counts = drawn(diversity, 130)
    assert {k: counts[k] for k in expected} == pytest.approx(
        {k: 130 * share for k, share in expected.items()}, abs=2.0
    )


def test_given_quotas_hold_and_the_others_share_the_rest() -> None:
    diversity = Diversity(TASKS, quotas={"timeout": 0.4}, class_power=1.0)
    assert diversity.shares == pytest.approx({"timeout": 0.4, "logic": 0.48, "type": 0.12})


def test_strength_mixes_quotas_with_the_weights() -> None:
    even = {
        strength: drawn(Diversity(TASKS, strength=strength), 150) for strength in (0.0, 0.5, 1.0)
    }
    assert even[0.0]["logic"] > even[0.5]["logic"] > even[1.0]["logic"]
    # At strength 0 a class has its part of the weights: 64 of 81, but for the tempered repositories.
    assert even[0.0]["logic"] == pytest.approx(150 * (63 / 80**0.5 + 1) / (80 / 80**0.5 + 1), abs=2)


def test_a_class_with_no_weight_has_no_turn_and_is_made_up_for_later() -> None:
    diversity = Diversity(TASKS, class_power=0.0, strength=1.0)
    is_logic = np.array([task.error_class == "logic" for task in TASKS])
    for _ in range(9):
        assert not diversity.take_turn(np.where(is_logic, 0.0, 1.0))[is_logic].any()
    turns = [bool(diversity.take_turn(np.ones(81))[is_logic].any()) for _ in range(9)]
    assert 2 <= sum(turns) <= 4  # due from now on, not for the time when it had nothing to offer


def test_a_small_repository_weighs_more_than_its_number_of_tasks() -> None:
    for power, expected in ((1.0, 1 / 64), (0.5, 1 / (1 + 63 / 80**0.5)), (0.0, 1 / (1 + 63 / 80))):
        diversity = Diversity(TASKS, repo_power=power)
        weights = diversity.take_turn(np.ones(81))
        assert KINDS[diversity.task_ids[int(np.argmax(weights))]] == "logic"
        assert weights[5] / weights.sum() == pytest.approx(expected)


def test_a_class_that_is_drawn_and_never_trained_raises_the_alarm() -> None:
    diversity = Diversity(TASKS, alarm_window=64)
    tasks = WeightedTasks(TASKS, diversity=diversity)
    rows = [GroupResult(i, "t00", 1, 4) for i in range(60)]
    rows += [GroupResult(100 + i, "t70", 1, 4, trained=False) for i in range(60)]
    tasks.observe(1, rows)
    assert diversity.starving() == ["timeout", "type"]
    metrics = tasks.metrics()
    assert metrics["selection_starving_classes"] == 2
    assert metrics["selection_class_logic"] == 1.0
    tasks.observe(2, [GroupResult(200 + i, "t70", 1, 4) for i in range(20)])
    assert diversity.starving() == ["timeout"]
    tasks.observe(3, [GroupResult(300 + i, "t80", 1, 4) for i in range(64)])
    assert diversity.starving() == ["logic", "type"]  # the window has moved on


def test_nothing_starves_before_it_could_have_had_a_turn() -> None:
    diversity = Diversity(TASKS)
    diversity.observe([GroupResult(i, "t00", 1, 4) for i in range(12)])
    assert diversity.starving() == []  # type was due 3.7 groups, timeout less than 1
    diversity.observe([GroupResult(12, "t00", 1, 4)])
    assert diversity.starving() == ["type"]


def test_the_summary_says_what_there_is_and_what_was_trained() -> None:
    diversity = Diversity(TASKS, class_power=0.0)
    tasks = WeightedTasks(TASKS, diversity=diversity)
    tasks.observe(1, [GroupResult(0, "t05", 1, 4), GroupResult(1, "t80", 0, 4)])
    third = {"quota": pytest.approx(1 / 3), "starving": 0.0}
    summary = {
        "error_class": {
            "logic": {"available": 64, "trained": 1, **third},
            "timeout": {"available": 1, "trained": 1, **third},
            "type": {"available": 16, "trained": 0, **third},
        },
        "repo": {
            "big": {"available": 80, "trained": 1},
            "small": {"available": 1, "trained": 1},
        },
    }
    assert tasks.summary() == summary
    tasks.observe(2, [GroupResult(number, "t05", 1, 4) for number in range(2, 20)])
    told = {name: facts["starving"] for name, facts in tasks.summary()["error_class"].items()}
    assert told == {name: float(name in diversity.starving()) for name in told}
    assert sum(told.values()) == 2
    assert WeightedTasks(TASKS).summary() == {}


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"class_power": 1.5}, r"class_power=1.5"),
        ({"repo_power": -0.1}, r"repo_power=-0.1"),
        ({"strength": 2.0}, r"strength=2.0"),
        ({"alarm_share": 2.0}, r"alarm_share=2.0"),
        ({"alarm_window": 0}, r"alarm_window=0"),
        ({"quotas": {"sintax": 0.1}}, r"'sintax'"),
        ({"quotas": {"logik": 0.1}}, r"Did you mean 'logic'"),
        ({"quotas": {"logic": 0.0}}, r"logic=0.0"),
        ({"quotas": {"logic": 0.7, "type": 0.6}}, r"add up to 1.3"),
        ({"quotas": {"logic": 0.7, "type": 0.3}}, r"leave something"),
        ({"quotas": {"logic": 0.7, "type": 0.1, "timeout": 0.1}}, r"add up to 0.9.*add up to 1"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, object], match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        Diversity(TASKS, **options)  # type: ignore[arg-type]


def test_other_tasks_and_other_classes_are_refused() -> None:
    diversity = Diversity(TASKS)
    with pytest.raises(ConfigError, match="made for other tasks"):
        WeightedTasks(TASKS[:5], diversity=diversity)
    with pytest.raises(ConfigError, match=r"error classes logic, timeout, type, this run logic"):
        Diversity(TASKS[:5]).load_state_dict(diversity.state_dict())
    with pytest.raises(ConfigError, match="with diversity, this run's weighted without"):
        WeightedTasks(TASKS).load_state_dict(WeightedTasks(TASKS, diversity=diversity).state_dict())
