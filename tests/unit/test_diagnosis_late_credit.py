"""Late credit: when it is a fault, and that it is not told of runs that learn; and what mishaps say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from agentic_gym.metrics import Interval
from agentic_gym.trainers.diagnosis.facts import EvalChange, RunFacts
from agentic_gym.trainers.diagnosis.findings import Finding
from agentic_gym.trainers.diagnosis.rules import diagnose
from agentic_gym.trainers.diagnosis.rules_learning import late_credit
from agentic_gym.trainers.diagnosis.settings import Settings

Points = list[tuple[int, float]]


def steady(value: float, updates: int = 24) -> Points:
    return [(step, value) for step in range(1, updates + 1)]


def solved(early: float, late: float, *, noise: float = 0.0, updates: int = 24) -> Points:
    """From one share to the other at the middle, to and fro around it."""
    return [
        (step, (early if 2 * step <= updates else late) + noise * (-1) ** step)
        for step in range(1, updates + 1)
    ]


def found(**changes: Any) -> list[Finding]:
    """What is said of a run whose credit is late, but for what is changed."""
    updates = changes.pop("updates", 24)
    settings = {"credit": "turn_gae", "ppo": {"gamma": 1.0, "gae_lambda": 0.95}}
    series = {
        "late_credit_share": steady(changes.pop("late", 0.9), updates),
        "batch.turns": steady(changes.pop("turns", 12.0), updates),
        "batch.solved": changes.pop("solved", solved(0.4, 0.4, updates=updates)),
    }
    facts = changes.pop("changes", ())
    return list(
        diagnose(RunFacts("run", series, settings=Settings({**settings, **changes}), changes=facts))
    )


def names(**changes: Any) -> list[str]:
    return [finding.name for finding in found(**changes)]


# ---- when ------------------------------------------------------------------------------------------


def test_it_says_what_even_credit_would_be_and_what_to_change() -> None:
    (finding,) = found()
    assert (finding.name, finding.severity, finding.since) == ("late_credit", "warning", 1)
    assert (finding.figure, finding.threshold) == (0.9, 0.6)
    assert "90% of what tokens earn falls on the last of 12 turns (evenly" in finding.sentence
    assert "would be 8%)" in finding.sentence
    assert f"hears {0.95**11:.2f} of it (gamma 1, lambda 0.95)" in finding.sentence
    assert [(s.key, s.now) for s in finding.settings][:2] == [
        ("ppo.gae_lambda", 0.95),
        ("credit", "turn_gae"),
    ]


@pytest.mark.parametrize(
    ("well", "ill"),
    [
        ({"late": 0.59}, {"late": 0.61}),
        ({"turns": 7.9}, {"turns": 8.1}),
        ({"updates": 11}, {"updates": 12}),
        ({"solved": solved(0.4, 0.56)}, {"solved": solved(0.41, 0.4)}),
        ({"solved": solved(0.4, 0.4, noise=0.1)}, {"solved": solved(0.4, 0.4, noise=0.09)}),
        ({"solved": solved(0.04, 0.04)}, {"solved": solved(0.06, 0.06)}),
        ({"solved": solved(0.81, 0.81)}, {"solved": solved(0.79, 0.79)}),
        ({"solved": solved(0.4, 0.42)}, {"solved": solved(0.4, 0.42, noise=0.02)}),
        ({"credit": "group"}, {"credit": "attention+turn_gae"}),
        ({"credit": "outcome+gigpo"}, {"credit": "token_gae"}),
    ],
)
def test_it_takes_all_of_it(well: dict[str, Any], ill: dict[str, Any]) -> None:
    assert names(**well) == []
    assert names(**ill) == ["late_credit"]


def test_a_discount_that_forgets_is_told_once() -> None:
    ppo = {"gamma": 0.9, "gae_lambda": 0.95}
    assert names(ppo=ppo) == ["late_credit"]
    series = {
        "late_credit_share": steady(0.9),
        "batch.turns": steady(12.0),
        "batch.solved": solved(0.4, 0.4),
        "batch.last_reward": steady(0.95),
    }
    settings = Settings({"credit": "turn_gae", "ppo": ppo})
    said = diagnose(RunFacts("run", series, settings=settings))
    assert [finding.name for finding in said] == ["credit_too_late"]


def test_an_evaluation_that_rose_is_learning() -> None:
    rose = EvalChange("held_out", Interval(0.2, 0.1, 0.3))
    assert names(changes=[rose]) == []
    flat = EvalChange("held_out", Interval(0.02, -0.1, 0.1))
    assert names(changes=[flat]) == ["late_credit", "no_evidence_of_learning"]


def test_what_the_first_turn_hears_is_said_where_it_is_known() -> None:
    def heard(**changes: Any) -> bool:
        (finding,) = found(**changes)
        return "the first turn hears" in finding.sentence

    assert heard()
    assert not heard(credit="token_gae")  # λ counts tokens
    adaptive = {"gamma": 1.0, "gae_lambda": 0.95, "extra": {"adaptive_lambda": 1.0}}
    assert not heard(ppo=adaptive)
    (finding,) = found(ppo={"gamma": 1.0, "gae_lambda": 1.0})
    assert "hears 1.00 of it" in finding.sentence
    assert finding.settings[0].key == "credit"  # λ is what is advised already


def test_a_usual_run_of_few_turns_says_nothing() -> None:
    """The bundled one: outcome at the end, six turns at most, and a γ that forgets on purpose."""
    ppo = {"gamma": 0.4, "gae_lambda": 0.95}
    assert names(late=1.0, turns=6.0, ppo=ppo) == []


# ---- how often by chance ---------------------------------------------------------------------------


def share_told(rise: float, *, updates: int, episodes: int, runs: int = 300) -> float:
    """Of simulated runs whose chance of success rises from 0.4 by ``rise``, first third to last."""
    rng = np.random.default_rng(5)
    told = 0
    for _ in range(runs):
        path = 0.4 + rise * 1.5 * np.linspace(0, 1, updates)
        points = list(enumerate((rng.binomial(episodes, path) / episodes).tolist(), start=1))
        series = {
            "late_credit_share": steady(0.95, updates),
            "batch.turns": steady(12.0, updates),
            "batch.solved": points,
        }
        told += late_credit(RunFacts("run", series)) is not None
    return told / runs


@pytest.mark.parametrize(("updates", "episodes"), [(12, 32), (12, 128), (30, 64)])
def test_a_run_that_rises_is_hardly_ever_told(updates: int, episodes: int) -> None:
    assert share_told(0.15, updates=updates, episodes=episodes) < 0.01


def test_a_run_that_stays_where_it_is_is_mostly_told() -> None:
    assert share_told(0.0, updates=24, episodes=128) > 0.9
    assert share_told(0.0, updates=30, episodes=64) > 0.7
    assert share_told(0.0, updates=12, episodes=16) < 0.3  # too little to tell


# ---- mishaps ---------------------------------------------------------------------------------------


def test_mishaps_say_what_went_wrong_since_they_began() -> None:
    series = {
        "batch.mishaps": [(1, 0.1), (2, 0.1), *((step, 0.8) for step in range(3, 9))],
        "batch.mishap.no_call": [(1, 0.1), *((step, 0.2) for step in range(3, 9))],
        "batch.mishap.broken_tests": [(step, 0.6) for step in range(3, 9)],
        "batch.mishap.refused": [(2, 0.1), (3, 0.0)],
    }
    (finding,) = diagnose(RunFacts("run", series))
    assert finding.sentence.startswith(
        "80% of the turns went wrong (75% broken tests, 25% no call). Most"
    )
    (finding,) = diagnose(RunFacts("run", {"batch.mishaps": series["batch.mishaps"]}))
    assert "went wrong: no call could be read, or one was refused. Most" in finding.sentence
    over = [*series["batch.mishaps"][:6], *((step, 0.1) for step in range(7, 12))]
    late = {"batch.mishaps": over, "batch.mishap.refused": [(4, 0.8), (9, 0.1)]}
    late["batch.mishap.no_call"] = [(9, 0.9)]  # after it was over
    (finding,) = diagnose(RunFacts("run", late))
    assert (finding.since, finding.until) == (3, 6)
    assert "(100% refused)" in finding.sentence
