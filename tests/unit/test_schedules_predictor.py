from __future__ import annotations

import json
import math
import random
from itertools import permutations

import numpy as np
import pytest

from agentic_gym.errors import ConfigError
from agentic_gym.trainers.schedules.predictor import (
    LengthPredictor,
    long_recall,
    r_squared,
    rank_correlation,
)


def test_nothing_is_known_at_first() -> None:
    predictor = LengthPredictor()
    assert predictor.predict("a", 100, "syntax") == 1.0
    score = predictor.score()
    assert (score.num, score.r2, score.rank_correlation, score.long_recall) == (0, None, None, None)


def test_without_differences_everything_takes_the_geometric_mean() -> None:
    predictor = LengthPredictor()
    for number, seconds in enumerate([1.0, 100.0] * 50):
        predictor.observe(f"t{number}", 3000, "", seconds)
    assert predictor.predict("new", 3000, "") == pytest.approx(10.0, rel=0.05)


def test_a_task_that_took_long_is_predicted_long_again() -> None:
    predictor = LengthPredictor()
    for _ in range(20):
        predictor.observe("slow", 3000, "", 100.0)
        predictor.observe("quick", 3000, "", 1.0)
    slow, new, quick = (predictor.predict(task, 3000, "") for task in ("slow", "new", "quick"))
    assert slow == pytest.approx(100.0, rel=0.3)
    assert new == pytest.approx(10.0, rel=0.5)
    assert quick == pytest.approx(1.0, rel=0.3)


def test_one_earlier_episode_counts_for_less_than_many() -> None:
    rng = random.Random(0)
    predictor = LengthPredictor()
    for _ in range(300):
        task = rng.randrange(20)
        predictor.observe(f"t{task}", 3000, "", math.exp(0.2 * (task - 10)))
    predictor.observe("once", 3000, "", 50.0)
    once = predictor.predict("once", 3000, "")
    for _ in range(5):
        predictor.observe("often", 3000, "", 50.0)
    assert 1.5 < once < 0.8 * predictor.predict("often", 3000, "")


def test_long_prompts_and_hard_classes_are_learned() -> None:
    rng = random.Random(0)
    predictor = LengthPredictor()
    for number in range(400):
        chars, kind = rng.randrange(500, 20000), rng.choice(["syntax", "logic"])
        seconds = chars**0.5 * (4.0 if kind == "logic" else 1.0)
        predictor.observe(f"t{number}", chars, kind, seconds)
    assert predictor.predict("x", 10000, "syntax") == pytest.approx(100.0, rel=0.1)
    assert predictor.predict("x", 2500, "logic") == pytest.approx(200.0, rel=0.1)
    # No class seen, no prompt known: in between.
    assert 50 < predictor.predict("x", 0, "timeout") < 250


def test_a_prompt_that_is_not_known_is_average() -> None:
    predictor = LengthPredictor()
    for number in range(100):
        chars = 1000 * (1 + number % 2 * 8)
        predictor.observe(f"t{number}", chars, "", float(chars))
    assert predictor.predict("x", 0, "") == pytest.approx(3000, rel=0.05)


def test_what_was_learned_is_forgotten() -> None:
    predictor = LengthPredictor(memory=20)
    for number in range(200):
        predictor.observe(f"t{number}", 3000, "", 100.0 if number < 100 else 10.0)
    assert predictor.predict("x", 3000, "") == pytest.approx(10.0, rel=0.05)


def test_a_class_not_seen_for_long_leaves_the_others_stable() -> None:
    predictor = LengthPredictor(memory=20)
    predictor.observe("a", 3000, "rare", 100.0)
    for number in range(1000):
        predictor.observe(f"t{number}", 3000, "common", 10.0)
    assert predictor.predict("x", 3000, "common") == pytest.approx(10.0, rel=0.01)
    assert predictor.predict("x", 3000, "rare") == pytest.approx(10.0, rel=0.01)


def test_classes_beyond_the_limit_share_a_coefficient() -> None:
    predictor = LengthPredictor(max_classes=1)
    for number in range(60):
        predictor.observe(
            f"t{number}", 3000, ("a", "b", "c")[number % 3], (1.0, 10.0, 40.0)[number % 3]
        )
    assert predictor.predict("x", 3000, "b") == predictor.predict("x", 3000, "c")
    assert predictor.predict("x", 3000, "a") < 0.2 * predictor.predict("x", 3000, "b")


def test_predictions_stay_within_what_was_observed() -> None:
    predictor = LengthPredictor()
    for number in range(1, 50):
        predictor.observe(f"t{number}", 100 * number, "", float(number))
    assert predictor.predict("x", 10**12, "") == pytest.approx(49.0)
    assert predictor.predict("x", 1, "") == pytest.approx(1.0)


def test_the_task_not_observed_for_longest_is_forgotten_first() -> None:
    predictor = LengthPredictor(max_tasks=2)
    for task in ("a", "b", "a", "c"):
        predictor.observe(task, 3000, "", 5.0)
    assert list(predictor.state_dict()["tasks"]) == ["a", "c"]


def test_the_regression_solves_the_ridge_problem() -> None:
    rng = random.Random(3)
    predictor = LengthPredictor(ridge=0.5, memory=10**9, max_classes=2)
    rows, logs = [], []
    for number in range(30):
        chars, kind, seconds = rng.randrange(1, 9999), rng.choice("ab"), rng.lognormvariate(1, 1)
        # A new task each time: its own feature is zero.
        predictor.observe(f"t{number}", chars, kind, seconds)
        first = predictor.state_dict()["classes"][0]
        rows.append([1, 0, math.log(chars) - 8, kind == first, kind != first, 0])
        logs.append(math.log(seconds))
    x, y = np.array(rows, dtype=float), np.array(logs)
    # Ridge as extra rows, solved by least squares: another way than the code's.
    extra = np.diag(np.sqrt([0.5e-6, *[0.5] * 5]))
    weights = np.linalg.lstsq(np.vstack([x, extra]), np.append(y, np.zeros(6)))[0]
    expected = math.exp(weights @ [1, 0, math.log(700) - 8, 1, 0, 0])
    first = predictor.state_dict()["classes"][0]
    assert predictor.predict("x", 700, first) == pytest.approx(expected, rel=1e-4)


def test_means_are_decayed() -> None:
    predictor = LengthPredictor(memory=10)
    keep = math.exp(-0.1)
    for seconds in (1.0, math.exp(2.0), math.exp(5.0)):
        predictor.observe("t", 3000, "", seconds)
    state = predictor.state_dict()
    total, mean = keep**2 + keep + 1, 2.0 / (keep + 1)
    assert state["all"] == pytest.approx([total, keep * 2 + 5])
    # Of the task: over the mean of all before, which was 0 at first.
    assert state["tasks"]["t"] == pytest.approx([0.81 + 0.9 + 1, 0.9 * 2 + 5 - mean])


def test_the_score_is_measured_before_observing() -> None:
    predictor = LengthPredictor(window=50)
    guesses, actual = [], []
    rng = random.Random(4)
    for number in range(80):
        chars = rng.randrange(100, 9999)
        guesses.append(math.log(predictor.predict(f"t{number}", chars, "")))
        actual.append(math.log(chars) + rng.gauss(0, 0.3))
        predictor.observe(f"t{number}", chars, "", math.exp(actual[-1]))
    score = predictor.score()
    assert score.num == 50
    guess, truth = np.array(guesses[-50:]), np.array(actual[-50:])
    assert score.r2 == pytest.approx(r_squared(guess, truth))
    assert (score.r2 or 0.0) > 0.7
    assert score.rank_correlation == pytest.approx(rank_correlation(guess, truth))
    assert score.long_recall == long_recall(guess, truth, 3.0)


def test_a_prediction_made_at_launch_is_scored_instead() -> None:
    fresh, late = LengthPredictor(), LengthPredictor()
    for number in range(100):
        seconds = float(1 + number % 7)
        fresh.observe("t", 3000, "", seconds, predicted=seconds)
        late.observe("t", 3000, "", seconds, predicted=9.0)
    assert fresh.score().r2 == 1.0
    assert fresh.score().rank_correlation == pytest.approx(1.0)
    assert late.score().rank_correlation is None
    assert fresh.predict("t", 3000, "") == late.predict("t", 3000, "")


def test_random_lengths_cannot_be_predicted() -> None:
    rng = random.Random(5)
    predictor = LengthPredictor()
    for _ in range(600):
        predictor.observe(
            f"t{rng.randrange(50)}", rng.randrange(1, 9999), "", rng.lognormvariate(0, 1)
        )
    score = predictor.score()
    assert score.r2 == pytest.approx(0.0, abs=0.2)
    assert score.rank_correlation == pytest.approx(0.0, abs=0.2)


def test_rank_correlation_of_all_orders() -> None:
    base = np.arange(5.0)
    for order in permutations(range(5)):
        other = np.array(order, dtype=float)
        spearman = 1 - 6 * float(np.sum((base - other) ** 2)) / (5 * 24)
        assert rank_correlation(base, np.exp(other)) == pytest.approx(spearman)


def test_ties_get_their_mean_rank() -> None:
    # Ranks 0, 1.5, 1.5, 3 against 0, 1, 2, 3.
    found = rank_correlation(np.array([1.0, 2, 2, 9]), np.array([1.0, 2, 3, 4]))
    assert found == pytest.approx(4.5 / math.sqrt(4.5 * 5))


def test_recall_of_the_long_ones() -> None:
    actual = np.log([1.0, 1, 1, 1, 1, 9, 9])
    order = np.arange(7.0)
    assert long_recall(order, actual, 3.0) == 1.0
    assert long_recall(-order, actual, 3.0) == 0.0
    assert long_recall(np.array([9.0, 0, 0, 0, 0, 0, 8]), actual, 3.0) == 0.5
    # All tied: as good as a draw.
    assert long_recall(np.zeros(7), actual, 3.0) == pytest.approx(2 / 7)
    assert long_recall(order, np.log([1.0, 1, 1, 1, 1, 2, 2]), 3.0) is None


def test_a_saved_predictor_goes_on_as_if_nothing_had_happened() -> None:
    rng = random.Random(6)
    one, other = LengthPredictor(window=20, max_tasks=9), LengthPredictor(window=20, max_tasks=9)
    other.load_state_dict(json.loads(json.dumps(one.state_dict())))
    for number in range(60):
        if number == 30:
            other = LengthPredictor(window=20, max_tasks=9)
            other.load_state_dict(json.loads(json.dumps(one.state_dict())))
        episode = f"t{rng.randrange(12)}", rng.randrange(9999), rng.choice("abc"), rng.random()
        assert one.predict(*episode[:3]) == other.predict(*episode[:3])
        one.observe(*episode)
        other.observe(*episode)
    assert one.state_dict() == other.state_dict()
    assert one.score() == other.score()


def test_a_state_of_another_size_is_refused() -> None:
    with pytest.raises(ConfigError, match="max_classes=4, this one has 16"):
        LengthPredictor().load_state_dict(LengthPredictor(max_classes=4).state_dict())


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("ridge", 0.0),
        ("memory", 0),
        ("shrinkage", -1.0),
        ("max_classes", -1),
        ("max_tasks", 0),
        ("window", 1),
        ("cut", 0.5),
        ("cut", float("nan")),
    ],
)
def test_impossible_options_are_refused(option: str, value: float) -> None:
    with pytest.raises(ConfigError, match=option):
        LengthPredictor(**{option: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("seconds", [-1.0, float("nan"), float("inf")])
def test_what_is_no_duration_is_refused(seconds: float) -> None:
    predictor = LengthPredictor()
    with pytest.raises(ConfigError, match="no duration"):
        predictor.observe("t", 1, "", seconds)
    assert predictor.score().num == 0
    predictor.observe("t", 1, "", 0.0)
    assert predictor.predict("t", 1, "") == pytest.approx(1e-3)
