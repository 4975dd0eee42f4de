from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from agentic_gym.beta import beta_cdf
from agentic_gym.difficulty import (
    DifficultyProfile,
    TaskTries,
    check_band,
    check_samples,
    evidence_of,
    read_profile,
    shares_of,
    write_profile,
)
from agentic_gym.errors import ConfigError


def profile_of(tasks: dict[str, TaskTries]) -> DifficultyProfile:
    return DifficultyProfile(
        model="random",
        task_set="pocket",
        split="train",
        samples=4,
        temperature=None,
        seed=0,
        created="2026-01-01T00:00:00+00:00",
        tasks=tasks,
    )


def test_four_tries_put_what_is_neither_always_nor_never_solved_into_the_band() -> None:
    tries = [TaskTries.of(solved, 4) for solved in range(5)]
    assert [one.mean for one in tries] == pytest.approx([0.1, 0.3, 0.5, 0.7, 0.9])
    assert [one.in_band(0.2, 0.8) for one in tries] == [False, True, True, True, False]
    assert TaskTries.of(1, 4).in_band(0.3, 0.4)  # an end is inside


def test_the_interval_holds_90_percent() -> None:
    interval = TaskTries.of(3, 4).interval
    assert interval is not None
    assert beta_cdf(3.5, 1.5, interval[0]) == pytest.approx(0.05, abs=1e-9)
    assert beta_cdf(3.5, 1.5, interval[1]) == pytest.approx(0.95, abs=1e-9)


def test_infra_errors_are_no_failures() -> None:
    broken, mixed = TaskTries.of(0, 0, 4), TaskTries.of(2, 2, 2)
    assert (broken.known, broken.mean, broken.interval) == (False, None, None)
    assert not broken.in_band(0, 1)
    assert mixed.mean == TaskTries.of(2, 2).mean
    assert evidence_of(profile_of({"b": broken, "m": mixed})) == {"m": (2, 0)}


def test_shares_count_each_task_once() -> None:
    tries = [TaskTries.of(s, t, i) for s, t, i in [(0, 4, 0), (4, 4, 0), (2, 4, 0), (0, 0, 4)]]
    shares = shares_of(tries, (0.2, 0.8))
    assert (shares.tasks, shares.in_band, shares.all_solved) == (4, 1, 1)
    assert (shares.never_solved, shares.unknown) == (1, 1)
    assert shares.success.value == pytest.approx(6 / 12)
    assert math.isnan(shares_of(tries[3:], (0.2, 0.8)).success.value)


def test_a_profile_survives_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    profile = profile_of({"a": TaskTries.of(1, 4), "b": TaskTries.of(0, 0, 4)})
    write_profile(profile, path)
    assert read_profile(path) == read_profile(str(path)) == profile
    assert list(tmp_path.iterdir()) == [path]
    row = json.loads(path.read_text())["tasks"]["a"]
    assert row["mean"] == pytest.approx(0.3)
    assert {"solved", "total", "infra_errors", "mean", "interval"} == set(row)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"version": 2}, r"of version 2, and this agentic-gym reads version 1"),
        ({"tasks": {}}, "tasks"),
        ({"tasks": {"a": {"solved": 3, "total": 2}}}, r"3 solved of 2"),
        ({"tasks": {"a": {"solved": -1, "total": 2}}}, r"solved = -1"),
        ({"tasks": {"a": {"solved": 1, "total": 4, "mean": 0.9}}}, r"mean=0.9 is not that of 1"),
        ({"tasks": {"a": {"solved": 1, "total": 4, "mean": math.nan}}}, r"mean=nan is not"),
        ({"tasks": {"a": {"solved": 1, "total": 4}}}, r"mean=None is not"),
        ({"tasks": {"a": {"solved": 0, "total": 0, "mean": 0.5}}}, r"mean=0.5 is not that of 0"),
        ({"tasks": {"a": {"solvd": 1}}}, r"Did you mean 'solved'"),
        ({"tasks": [1]}, "tasks"),
        ({"modle": "x"}, r"unknown key 'modle'. Did you mean 'model'"),
    ],
)
def test_what_contradicts_itself_is_refused(
    tmp_path: Path, change: dict[str, Any], match: str
) -> None:
    path = tmp_path / "profile.json"
    data = profile_of({"a": TaskTries.of(1, 4)}).model_dump(mode="json") | change
    path.write_text(json.dumps(data))
    with pytest.raises(ConfigError, match=match) as caught:
        read_profile(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]", '"tasks"', "{}", "[" * 100_000, "\xff"])
def test_what_is_no_profile_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "profile.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError, match="is no difficulty profile"):
        read_profile(path)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no difficulty profile at .*agentic-gym tasks profile"):
        read_profile(tmp_path / "nowhere.json")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_profile(tmp_path)


@pytest.mark.parametrize(
    ("samples", "band"), [(2, (0.2, 0.8)), (10, (0.05, 1.0)), (1, (0.0, 1.0)), (2, (0.0, 0.8))]
)
def test_samples_that_tell_a_band_apart(samples: int, band: tuple[float, float]) -> None:
    check_samples(samples, band)
    if samples > 1:
        with pytest.raises(ConfigError, match=f"Give {samples} samples or more"):
            check_samples(samples - 1, band)


@pytest.mark.parametrize(("low", "high"), [(0.8, 0.2), (-0.1, 1), (0, 1.1), (0.5, 0.5)])
def test_what_is_no_band_is_refused(low: float, high: float) -> None:
    with pytest.raises(ConfigError, match=f"low={low} and high={high}"):
        check_band("low", low, "high", high)


def test_an_interval_that_does_not_hold_its_mean_is_refused() -> None:
    fields = TaskTries.of(2, 4).model_dump()
    with pytest.raises(ConfigError, match="does not hold the mean"):
        TaskTries(**{**fields, "interval": (0.8, 0.9)})
