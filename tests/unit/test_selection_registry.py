from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from agentic_gym.errors import ConfigError
from agentic_gym.trainers.selection import (
    TaskFacts,
    TaskSelector,
    UniformTasks,
    make_selector,
    selection_options,
    selector_names,
)
from agentic_gym.trainers.selection.band import BandTasks
from agentic_gym.trainers.selection.curriculum import CurriculumTasks
from agentic_gym.trainers.selection.diversity import Diversity

TASKS = [TaskFacts(f"t{i}", "logic" if i else "syntax") for i in range(4)]
HERE = f"{__name__}:"


class Always(TaskSelector):
    """One of a user's own."""

    def __init__(
        self,
        tasks: Sequence[TaskFacts],
        *,
        seed: int = 0,
        place: int = 0,
        diversity: Diversity | None = None,
    ) -> None:
        self._task = tasks[place].task_id
        self.diversity = diversity

    def next_task(self) -> str:
        return self._task

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        assert state == {}


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, __name__, sys.modules[Always.__module__])


def test_every_name_makes_a_selector_that_takes_each_of_its_options() -> None:
    names = selector_names()
    assert names == tuple(sorted(names))
    assert {"uniform", "band", "curriculum+diversity"} <= set(names)
    for name in names:
        selector = make_selector(name, TASKS, 1)
        assert selector.next_task() in {task.task_id for task in TASKS}
        for option, value in selection_options(name).items():
            make_selector(name, TASKS, 1, **{option: value})


def test_names_mean_what_they_say() -> None:
    assert isinstance(make_selector("uniform", TASKS), UniformTasks)
    assert type(make_selector("band", TASKS)) is BandTasks
    curriculum = make_selector("curriculum+diversity", TASKS, quotas={"syntax": 0.4}, high=0.5)
    assert isinstance(curriculum, CurriculumTasks)
    assert curriculum.summary()["error_class"]["syntax"]["quota"] == 0.4
    assert make_selector("uniform", TASKS, 5).next_task() == (
        UniformTasks([task.task_id for task in TASKS], seed=5).next_task()
    )


def test_options_are_those_of_the_whole_family() -> None:
    options = selection_options("curriculum+diversity")
    assert options["low"] == 0.1  # its own, not the band's 0.2
    assert {"discount", "explore", "spacing", "class_power"} <= options.keys()
    assert not {"tasks", "seed", "diversity", "self", "options"} & options.keys()
    assert "class_power" not in selection_options("curriculum")


@pytest.mark.parametrize(
    ("name", "options", "match"),
    [
        ("bnad", {}, r"no selector 'bnad'. Did you mean 'band'"),
        (
            "uniform",
            {"explore": 0.1},
            r"'uniform' reads no 'explore'. It has no options. It is read by",
        ),
        ("band", {"explor": 0.1}, r"reads no 'explor'. Did you mean 'explore'"),
        ("band", {"quotas": {}}, r"reads no 'quotas'.*It is read by 'band\+diversity'"),
        ("band", {"max_step": 0.1}, r"It is read by 'curriculum'"),
        ("band", {"low": 0.9}, r"low=0.9 and high=0.8"),
        ("band", {"low": "a"}, r"cannot use low='a'"),
        ("band+diversity", {"quotas": 3}, r"cannot use quotas=3"),
        ("nowhere:Class", {}, r"'nowhere:Class' cannot be imported"),
        ("json:Class", {}, r"'json:Class' cannot be imported"),
    ],
)
def test_mistakes_are_refused(name: str, options: dict[str, Any], match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        make_selector(name, TASKS, **options)


def test_one_of_your_own() -> None:
    assert selection_options(f"{HERE}Always") == {"place": 0}
    assert make_selector(f"{HERE}Always", TASKS, place=2).next_task() == "t2"
    with pytest.raises(ConfigError, match="Did you mean 'place'"):
        make_selector(f"{HERE}Always", TASKS, plaice=2)
    diverse = make_selector(f"{HERE}Always+diversity", TASKS, strength=1.0)
    assert isinstance(diverse, Always)
    assert diverse.diversity is not None
    assert diverse.metrics() == {}
    diverse.observe(1, [])


@pytest.mark.slow
def test_selection_needs_no_torch() -> None:
    names = ["band", "curriculum", "filters", "posterior", "refill", "registry", "weighted"]
    imports = ", ".join(f"agentic_gym.trainers.selection.{name}" for name in names)
    code = f"import sys, {imports}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
