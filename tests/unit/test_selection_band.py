from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from agentic_gym.errors import ConfigError
from agentic_gym.trainers.selection.band import BandTasks, band_weights
from agentic_gym.trainers.selection.base import GroupResult, TaskFacts, TaskSelector
from agentic_gym.trainers.selection.weighted import WeightedTasks

SIZE = 4


def named(rates: dict[str, float]) -> list[TaskFacts]:
    return [TaskFacts(name) for name in rates]


def play(
    tasks: TaskSelector, rates: dict[str, float], *, updates: int, groups: int = 8, seed: int = 0
) -> list[GroupResult]:
    """Groups of tasks that are solved at fixed rates; all are trained."""
    rng, played = np.random.default_rng(seed), []
    for update in range(1, updates + 1):
        batch = []
        for group in range(groups):
            task = tasks.next_task()
            solved = int(rng.binomial(SIZE, rates[task]))
            batch.append(GroupResult(update * groups + group, task, solved, SIZE))
        tasks.observe(update, batch)
        played += batch
    return played


def test_weights_are_highest_in_the_middle_and_fall_off_outside() -> None:
    rates = np.array([0.0, 0.1, 0.2, 0.5, 0.8, 0.9, 1.0])
    weights = band_weights(rates, (0.2, 0.8), 0.05)
    assert weights[2:5] == pytest.approx([0.64, 1.0, 0.64])
    assert weights[1] == pytest.approx(0.36 * np.exp(-2))
    assert weights[[0, 6]].tolist() == [0, 0]
    assert int(np.argmax(band_weights(np.linspace(0, 1, 101), (0.4, 0.9), 0.05))) == 65


def test_tasks_in_the_band_get_most_draws_and_the_figures_say_so() -> None:
    rates = {f"t{i:02d}": p for i, p in enumerate([0.0] * 20 + [0.5] * 10 + [1.0] * 20)}
    tasks = BandTasks(named(rates), explore=0.1, spacing=4, discount=0.99, window=128)
    played = play(tasks, rates, updates=50)
    late = [rates[result.task_id] == 0.5 for result in played[-128:]]
    assert np.mean(late) > 0.75  # of 0.2 by chance
    metrics = tasks.metrics()
    assert metrics["selection_in_band"] == pytest.approx(np.mean(late), abs=0.1)
    assert metrics["selection_posterior_mean"] == pytest.approx(0.5, abs=0.1)
    assert metrics["selection_explored"] == pytest.approx(0.1, abs=0.01)
    assert 10 < metrics["selection_effective_tasks"] < 25
    assert (metrics["selection_band_low"], metrics["selection_band_high"]) == (0.2, 0.8)


def test_a_sharper_selector_spreads_its_draws_over_fewer_tasks() -> None:
    spread = {}
    for sharpness in (1.0, 20.0):
        tasks = BandTasks(
            [TaskFacts(f"t{i:02d}") for i in range(41)], explore=0.0, spacing=0, sharpness=sharpness
        )
        tasks.observe(1, [GroupResult(i, f"t{i:02d}", 5 * i, 200) for i in range(41)])
        for _ in range(250):
            tasks.next_task()
        spread[sharpness] = tasks.metrics()["selection_effective_tasks"]
    assert spread[20.0] < 0.7 * spread[1.0]


def test_results_count_from_the_next_draw_after_their_update_and_once() -> None:
    rates = {f"t{i}": 0.5 for i in range(12)}
    told, again, untold = (
        BandTasks(named(rates), seed=3, explore=0.0, spacing=0, pool_strength=math.inf)
        for _ in range(3)
    )
    batch = [GroupResult(i, f"t{i}", 4, 4) for i in range(11)]
    for tasks in (told, again, untold):
        for _ in range(3):
            tasks.next_task()
    told.observe(1, batch)
    again.observe(1, list(reversed(batch)))  # the order within a batch changes nothing
    again.observe(1, batch)  # a restart may tell it again
    again.observe(0, batch)
    assert told.state_dict() == again.state_dict()
    again.load_state_dict(told.state_dict())
    again.observe(1, batch)
    assert told.state_dict() == again.state_dict()
    draws = [[tasks.next_task() for _ in range(40)] for tasks in (told, again, untold)]
    assert draws[0] == draws[1] != draws[2]
    assert Counter(draws[0])["t11"] > Counter(draws[2])["t11"]  # the only one not known to be easy


def test_exploration_takes_the_task_drawn_longest_ago() -> None:
    rates = {f"t{i}": 0.0 for i in range(6)} | {"mid": 0.5}
    tasks = BandTasks(named(rates), explore=0.5, spacing=0, discount=1.0)
    drawn = [result.task_id for result in play(tasks, rates, updates=20, groups=7)]
    for begin in range(len(drawn) - 14):
        assert set(drawn[begin : begin + 14]) == set(rates)  # 7 tasks / 0.5


def test_without_exploration_a_hopeless_task_is_left_alone() -> None:
    rates = {"hopeless": 0.0} | {f"t{i}": 0.5 for i in range(5)}
    tasks = BandTasks(named(rates), explore=0.0, spacing=0, discount=1.0)
    played = play(tasks, rates, updates=60)
    assert sum(result.task_id == "hopeless" for result in played[-240:]) < 5


@pytest.mark.parametrize("count", [1, 2, 3, 9])
def test_a_task_rests_before_it_is_drawn_again(count: int) -> None:
    tasks = WeightedTasks([TaskFacts(f"t{i}") for i in range(count)], explore=0.0, spacing=4)
    drawn = [tasks.next_task() for _ in range(100)]
    spacing = min(4, count // 2)
    for begin in range(len(drawn) - spacing):
        window = drawn[begin : begin + spacing + 1]
        assert len(set(window)) == len(window)
    assert set(drawn) == {f"t{i}" for i in range(count)}


def test_the_order_in_which_tasks_are_listed_changes_nothing() -> None:
    tasks = [TaskFacts(f"t{i}") for i in range(9)]
    first, second = WeightedTasks(tasks, seed=2), WeightedTasks(tasks[::-1], seed=2)
    assert [first.next_task() for _ in range(30)] == [second.next_task() for _ in range(30)]


def test_seeds_differ() -> None:
    tasks = [TaskFacts(f"t{i}") for i in range(9)]
    first, second = WeightedTasks(tasks, seed=2), WeightedTasks(tasks, seed=3)
    assert [first.next_task() for _ in range(30)] != [second.next_task() for _ in range(30)]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"low": 0.8, "high": 0.2}, r"low=0.8 and high=0.2"),
        ({"low": -0.1}, r"low=-0.1"),
        ({"high": 1.1}, r"high=1.1"),
        ({"softness": 0.0}, r"softness=0.0"),
        ({"sharpness": 0.0}, r"sharpness=0.0"),
        ({"explore": 1.5}, r"explore=1.5"),
        ({"spacing": -1}, r"spacing=-1"),
        ({"window": 0}, r"window=0"),
        ({"discount": 2.0}, r"discount=2.0"),
    ],
)
def test_numbers_out_of_range_are_refused(options: dict[str, Any], match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        BandTasks([TaskFacts("a")], **options)


def test_a_state_of_another_selector_or_of_other_tasks_is_refused() -> None:
    band, even = BandTasks([TaskFacts("a")]), WeightedTasks([TaskFacts("a")])
    with pytest.raises(ConfigError, match=r"is weighted without .* this run's band"):
        band.load_state_dict(even.state_dict())
    with pytest.raises(ConfigError, match="is uniform"):
        band.load_state_dict({"cursor": 3})
    band.next_task()
    with pytest.raises(ConfigError, match="'a', which this run lacks"):
        BandTasks([TaskFacts("b")]).load_state_dict(band.state_dict())


def test_the_saved_state_is_json_and_of_the_tasks_that_were_touched_alone() -> None:
    tasks = BandTasks([TaskFacts(f"t{i:05d}") for i in range(2000)])
    drawn = {tasks.next_task() for _ in range(10)}
    tasks.observe(1, [GroupResult(i, task, 1, 4) for i, task in enumerate(sorted(drawn))])
    state = json.loads(json.dumps(tasks.state_dict(), allow_nan=False))
    assert set(state["last"]) == drawn == set(state["posteriors"]["evidence"])
