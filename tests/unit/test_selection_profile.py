"""A difficulty profile as the beginning of task selection."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentic_gym.difficulty import DifficultyProfile, TaskTries, write_profile
from agentic_gym.errors import ConfigError
from agentic_gym.trainers.learning import check_selection
from agentic_gym.trainers.run_config import TrainConfig
from agentic_gym.trainers.selection import GroupResult, TaskFacts, make_selector
from agentic_gym.trainers.selection.band import BandTasks
from agentic_gym.trainers.selection.curriculum import CurriculumTasks
from agentic_gym.trainers.selection.posterior import Posteriors

RATES = {f"t{i:02d}": rate for i, rate in enumerate([0.0] * 20 + [0.5] * 10 + [1.0] * 10)}
FACTS = [TaskFacts(name) for name in RATES]


def profile_of(**tries: tuple[int, int]) -> DifficultyProfile:
    return DifficultyProfile(
        model="random",
        task_set="pocket",
        split="train",
        samples=4,
        temperature=None,
        seed=0,
        created="2026-01-01T00:00:00+00:00",
        tasks={name: TaskTries.of(*counts) for name, counts in tries.items()},
    )


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Of a profile of all tasks, four tries each."""
    tries = {name: (round(4 * rate), 4) for name, rate in RATES.items()}
    write_profile(profile_of(**tries), tmp_path / "profile.json")
    return str(tmp_path / "profile.json")


def test_tries_from_before_are_added_to_the_prior_and_not_forgotten() -> None:
    tasks = [TaskFacts("a"), TaskFacts("b")]
    posteriors = Posteriors(
        tasks, pool_strength=math.inf, discount=0.5, measured={"a": (3.0, 1.0), "gone": (9.0, 9.0)}
    )
    assert np.array(posteriors.parameters()).tolist() == [[3.5, 0.5], [1.5, 0.5]]
    posteriors.observe(1, [GroupResult(0, "a", 0, 4)])
    assert np.array(posteriors.parameters()).tolist() == [[3.5, 0.5], [5.5, 0.5]]
    posteriors.observe(50, [])
    assert np.array(posteriors.parameters()).tolist() == [[3.5, 0.5], [1.5, 0.5]]
    assert posteriors.num_measured == 1
    assert posteriors.num_known == pytest.approx(0.8)


def test_they_inform_the_prior_of_tasks_of_the_same_class() -> None:
    tasks = [TaskFacts(f"{kind}{i}", kind) for kind in ("hard", "easy") for i in range(6)]
    measured = {f"hard{i}": (0.0, 4.0) for i in range(5)} | {
        f"easy{i}": (4.0, 0.0) for i in range(5)
    }
    mean = Posteriors(tasks, pool_strength=1.0, measured=measured).mean()
    assert mean[5] < 0.3
    assert mean[11] > 0.7


def test_the_first_draws_are_in_the_band(path: str) -> None:
    shares = []
    for options in ({}, {"profile": path}):
        tasks = make_selector("band", FACTS, 3, explore=0.1, spacing=4, **options)
        shares.append(np.mean([RATES[tasks.next_task()] == 0.5 for _ in range(200)]))
    assert shares[0] < 0.4  # 0.25 by chance
    assert shares[1] > 0.5


@pytest.mark.parametrize("name", ["band", "band+diversity", "curriculum", "curriculum+diversity"])
def test_every_selector_with_posteriors_takes_a_profile(name: str, path: str) -> None:
    metrics = make_selector(name, FACTS, profile=path, profile_weight=100.0).metrics()
    assert metrics["selection_profiled"] == 1
    assert metrics["selection_posterior_mean"] == pytest.approx(15 / 40, abs=0.01)
    assert "selection_profiled" not in make_selector(name, FACTS).metrics()
    weak = make_selector(name, FACTS, profile=path, profile_weight=1e-4).metrics()
    assert weak["selection_posterior_mean"] == pytest.approx(0.5, abs=0.05)


def test_a_curriculum_that_knows_its_tasks_moves_with_the_first_update(path: str) -> None:
    knows = CurriculumTasks(FACTS, profile=path)
    knows.observe(1, [])
    assert knows.progress == 0.05
    starts = CurriculumTasks(FACTS, begin_at=0.0)
    starts.observe(1, [])
    assert starts.progress == 0


def test_tasks_that_the_profile_lacks_begin_at_the_prior() -> None:
    tasks = BandTasks(FACTS, profile=profile_of(t00=(4, 4), t01=(0, 0)), pool_strength=math.inf)
    assert tasks.posteriors.mean()[:3].tolist() == [pytest.approx(0.9), 0.5, 0.5]
    assert tasks.metrics()["selection_profiled"] == 1 / 40


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (
            {"profile": profile_of(other=(1, 4))},
            r"random on pocket, split train, .*knows none of the 40",
        ),
        ({"profile": profile_of(t00=(0, 0))}, r"knows none of the 40 tasks .*'t00' for instance"),
        ({"profile": "nowhere.json"}, r"no difficulty profile at nowhere.json"),
        ({"profile": 3}, r"cannot use profile=3"),
        ({"profile_weight": 2.0}, r"profile_weight=2.0 is not read without a profile"),
        ({"profile": profile_of(t00=(1, 4)), "profile_weight": 0.0}, r"profile_weight=0.0"),
        ({"profile": profile_of(t00=(1, 4)), "profile_weight": math.nan}, r"profile_weight=nan"),
    ],
)
def test_mistakes_are_refused(options: dict[str, Any], match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        make_selector("band", FACTS, **options)


def test_a_run_goes_on_with_the_profile_that_it_began_with(path: str) -> None:
    first = BandTasks(FACTS, seed=1, profile=path)
    first.observe(1, [GroupResult(0, first.next_task(), 1, 4)])
    saved = json.dumps(first.state_dict(), allow_nan=False)
    again = BandTasks(FACTS[::-1], seed=1, profile=path)
    again.load_state_dict(json.loads(saved))
    assert [first.next_task() for _ in range(20)] == [again.next_task() for _ in range(20)]
    others = [
        BandTasks(FACTS, profile=path, profile_weight=0.5),
        BandTasks(FACTS, profile=profile_of(t00=(1, 4))),
        BandTasks(FACTS),
    ]
    for other in others:
        with pytest.raises(ConfigError, match="not the one that the run began with"):
            other.load_state_dict(json.loads(saved))
    old = json.loads(json.dumps(BandTasks(FACTS).state_dict()))
    del old["posteriors"]["measured"]  # as it was written before there were profiles
    BandTasks(FACTS).load_state_dict(old)


def test_a_run_refuses_a_profile_that_cannot_be_read_before_it_begins(path: str) -> None:
    given: dict[str, Any] = {"selection": "band+diversity", "selection_options": {"profile": path}}
    check_selection(TrainConfig(**given))
    given["selection_options"] = {"profile": f"{path}.gone"}
    with pytest.raises(ConfigError, match=r"no difficulty profile at .*gone"):
        check_selection(TrainConfig(**given))
    with pytest.raises(ConfigError, match="no selector 'bnad'"):
        check_selection(TrainConfig(selection="bnad"))
