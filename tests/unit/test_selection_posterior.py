from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from agentic_gym.errors import ConfigError
from agentic_gym.trainers.selection.base import GroupResult, TaskFacts
from agentic_gym.trainers.selection.posterior import Posteriors


def test_a_guess_is_the_mean_of_the_prior_and_results_outweigh_it() -> None:
    tasks = [TaskFacts("easy", difficulty=0.1), TaskFacts("sure", difficulty=1.0)]
    posteriors = Posteriors(tasks, prior_strength=2.0)
    assert posteriors.mean().tolist() == pytest.approx([0.9, 0.05])
    posteriors.observe(1, [GroupResult(0, "easy", 0, 8)])
    assert posteriors.mean()[0] == pytest.approx(1.8 / 10)
    assert posteriors.interval(0).value == pytest.approx(0.18)
    assert posteriors.mass(0, 0, 1) == pytest.approx(1)


def test_every_update_discounts_all_evidence_once() -> None:
    posteriors = Posteriors(
        [TaskFacts("a"), TaskFacts("b")],
        prior_strength=2.0,
        discount=0.5,
        pool_strength=math.inf,
    )
    posteriors.observe(3, [GroupResult(0, "a", 4, 4), GroupResult(1, "b", 0, 4)])
    posteriors.observe(5, [GroupResult(2, "b", 1, 4), GroupResult(3, "b", 0, 4)])
    alpha, beta = posteriors.parameters()
    assert alpha.tolist() == [1 + 1, 1 + 1]  # 4 · 0.5²; 0 + 1
    assert beta.tolist() == [1 + 0, 1 + 1 + 7]
    posteriors.observe(100, [])
    assert posteriors.parameters()[0].tolist() == [1, 1]
    assert posteriors.state_dict()["evidence"] == {}


def test_a_task_without_a_guess_begins_at_the_mean_of_its_class() -> None:
    tasks = [TaskFacts(f"{kind}{i}", kind) for kind in ("hard", "easy") for i in range(6)]
    posteriors = Posteriors(tasks, pool_strength=1.0)
    posteriors.observe(1, [GroupResult(i, f"easy{i}", 8, 8) for i in range(5)])
    posteriors.observe(2, [GroupResult(i, f"hard{i}", 0, 8) for i in range(5)])
    mean = posteriors.mean()
    assert mean[5] < 0.25  # hard5 was never tried
    assert mean[11] > 0.75  # nor was easy5
    alone = Posteriors(tasks, pool_strength=math.inf)
    alone.observe(1, [GroupResult(i, f"easy{i}", 8, 8) for i in range(5)])
    assert alone.mean()[11] == 0.5


def test_a_task_is_no_evidence_of_its_own_prior() -> None:
    tasks = [TaskFacts("a", "kind"), TaskFacts("b", "kind")]
    posteriors = Posteriors(tasks)
    posteriors.observe(1, [GroupResult(0, "a", 8, 8)])
    assert posteriors.prior_mean()[0] == 0.5
    assert posteriors.prior_mean()[1] > 0.5


def test_in_its_class_a_task_weighs_one_however_often_it_is_tried() -> None:
    """Tasks are tried again because of their rate: a mean over tries is drawn to what is chosen."""
    tasks = [TaskFacts(f"t{i}") for i in range(4)]
    posteriors = Posteriors(tasks, discount=1.0, pool_strength=1e-9)
    for update in range(200):
        posteriors.observe(update, [GroupResult(update, "t0", 8, 8)])
    posteriors.observe(200, [GroupResult(200, "t1", 0, 200), GroupResult(201, "t2", 0, 200)])
    assert posteriors.prior_mean()[3] == pytest.approx(1 / 3, abs=0.01)  # 1 task of 3, not 8 of 9


def test_results_of_other_tasks_and_of_nobody_change_nothing() -> None:
    posteriors = Posteriors([TaskFacts("a")])
    before = posteriors.mean().tolist()
    posteriors.observe(1, [GroupResult(0, "unknown", 3, 4), GroupResult(1, "a", 0, 0)])
    assert posteriors.mean().tolist() == before


@pytest.mark.parametrize(
    "options",
    [
        {"prior_strength": 0.0},
        {"prior_strength": math.inf},
        {"pool_strength": -1.0},
        {"discount": 0.0},
        {"discount": 1.1},
    ],
)
def test_numbers_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(options))}={next(iter(options.values()))}"):
        Posteriors([TaskFacts("a")], **options)


def test_a_saved_state_of_other_tasks_is_refused() -> None:
    saved = Posteriors([TaskFacts("a"), TaskFacts("gone")])
    saved.observe(1, [GroupResult(0, "gone", 1, 2)])
    with pytest.raises(ConfigError, match="'gone', which this run lacks"):
        Posteriors([TaskFacts("a")]).load_state_dict(saved.state_dict())


def test_draws_follow_the_posteriors() -> None:
    posteriors = Posteriors([TaskFacts("a"), TaskFacts("b")], pool_strength=math.inf)
    posteriors.observe(1, [GroupResult(0, "a", 7, 8), GroupResult(1, "b", 1, 8)])
    rng = np.random.default_rng(0)
    draws = np.array([posteriors.draw(rng) for _ in range(2000)])
    assert draws.mean(0) == pytest.approx(posteriors.mean(), abs=0.02)
    share = np.mean((draws[:, 0] > 0.2) & (draws[:, 0] < 0.8))
    assert share == pytest.approx(posteriors.mass(0, 0.2, 0.8), abs=0.04)
