"""Where thresholds lie: a figure just under says nothing, just over it speaks."""

from __future__ import annotations

from typing import Any

import pytest

from agentic_gym.store import LedgerCounts
from agentic_gym.trainers.diagnosis.facts import RunFacts
from agentic_gym.trainers.diagnosis.rules import diagnose
from agentic_gym.trainers.diagnosis.settings import Settings

EDGES: list[tuple[str, str, float, float]] = [
    ("clipped", "clip_fraction", 0.29, 0.31),
    ("kl_blow_up", "approx_kl", 0.09, 0.11),
    ("low_ess", "ess", 0.31, 0.29),
    ("capped_tokens", "capped_fraction", 0.04, 0.06),
    ("engine_mismatch", "probability_mismatch", 0.009, 0.011),
    ("engine_kl", "version_kl_0", 0.09, 0.11),
    ("publish_gap", "publish_gap", 4e-4, 6e-4),
    ("repeated_actions", "batch.repeats", 0.29, 0.31),
    ("mishaps", "batch.mishaps", 0.49, 0.51),
    ("out_of_turns", "batch.out_of_turns", 0.74, 0.76),
    ("out_of_tokens", "batch.out_of_tokens", 0.19, 0.21),
    ("out_of_time", "batch.out_of_time", 0.19, 0.21),
    ("cut_completions", "batch.cut_completions", 0.19, 0.21),
    ("suspected_hacks", "batch.suspected_hacks", 0.019, 0.021),
    ("tampered_tests", "batch.tampered", 0.09, 0.11),
    ("groups_all_failed", "batch.groups_failed", 0.89, 0.91),
    ("groups_all_solved", "batch.groups_solved", 0.89, 0.91),
    ("starving_classes", "selection_starving_classes", 0.0, 1.0),
    ("no_spread", "batch.reward_spread", 1e-5, 1e-7),
    ("few_tasks", "batch.tasks", 8, 7),
    ("trainer_idle", "update.wait_share", 0.79, 0.81),
    ("engine_idle", "engine_idle_share", 0.59, 0.61),
    ("kv_pressure", "kv_used_share", 0.89, 0.91),
    ("parked", "parked_share", 0.04, 0.06),
]


def constant(value: float, updates: int = 8) -> list[tuple[int, float]]:
    return [(step, value) for step in range(1, updates + 1)]


def names(series: dict[str, list[tuple[int, float]]], **settings: Any) -> set[str]:
    return {f.name for f in diagnose(RunFacts("run", series, settings=Settings(settings)))}


@pytest.mark.parametrize(("name", "metric", "well", "ill"), EDGES, ids=[n for n, *_ in EDGES])
def test_a_threshold_lies_where_it_is_said(name: str, metric: str, well: float, ill: float) -> None:
    assert names({metric: constant(well)}) == set()
    assert names({metric: constant(ill)}) == {name}


SLOW = [
    ("slow_tools", "batch.tool_share", 0.49, 0.51),
    ("slow_grading", "batch.grading_share", 0.29, 0.31),
    ("slow_resets", "batch.other_share", 0.49, 0.51),
    ("slow_prefill", "batch.prefill_share", 0.49, 0.51),
    ("stragglers", "batch.straggler_ratio", 4.9, 5.1),
]


@pytest.mark.parametrize(("name", "figure", "well", "ill"), SLOW, ids=[n for n, *_ in SLOW])
def test_a_cause_of_slowness_matters_where_the_trainer_waits(
    name: str, figure: str, well: float, ill: float
) -> None:
    def at(value: float, waits: float) -> set[str]:
        return names({figure: constant(value), "update.wait_share": constant(waits)})

    assert at(ill, 0.51) == {name}
    assert at(well, 0.51) == at(ill, 0.49) == set()
    assert names({figure: constant(ill)}) == set()


def test_entropy_is_measured_against_its_start() -> None:
    def then(start: float, end: float) -> set[str]:
        return names({"entropy": [*constant(start, 3), *((step, end) for step in range(4, 9))]})

    assert then(0.1, 0.021) == set()
    assert then(0.1, 0.019) == {"entropy_collapse"}
    assert then(2.0, 0.051) == set()  # most of it is gone, and enough is left
    assert then(2.0, 0.049) == {"entropy_collapse"}
    assert then(0.1, 0.59) == set()  # six times as much, and little all the same
    assert then(0.1, 0.61) == {"entropy_blow_up"}
    assert then(2.0, 3.9) == set()
    assert then(2.0, 4.1) == {"entropy_blow_up"}
    assert names({"entropy": constant(0.001, 2)}) == set()


def test_a_kl_that_was_stopped_is_told_as_stopped() -> None:
    series = {"approx_kl": constant(0.2), "stopped_early": constant(1.0)}
    assert names(series) == {"target_kl_stops"}


def test_a_spike_is_measured_against_the_median_before() -> None:
    def after(*norms: float) -> set[str]:
        return names({"grad_norm": list(enumerate(norms, start=1))})

    assert after(0.0, 1.0, 1.0, 1.0, 9.9) == set()
    assert after(0.0, 1.0, 1.0, 1.0, 10.1) == {"gradient_spike"}
    assert after(0.0, 1.0, 1.0, 10.1) == set()  # two are no past


def test_a_value_head_has_time_to_learn() -> None:
    def learned(*shares: float) -> set[str]:
        points = list(enumerate(shares, start=1))
        return names({"value": constant(0.2), "explained_variance": points})

    assert learned(0, 0, 0, 0.1, 0.1, 0.1, 0.1) == set()
    assert learned(0, 0, 0, 5e-4, 5e-4, 5e-4) == {"value_useless"}
    assert learned(0, 0, 0, 2e-3, 2e-3, 2e-3) == set()


def test_staleness_is_measured_against_its_bound() -> None:
    def at(staleness: float, **settings: Any) -> set[str]:
        return names({"staleness": constant(staleness)}, **settings)

    def bound(limit: int) -> dict[str, Any]:
        return {"schedule": "streaming", "schedule_options": {"window": limit}}

    assert at(1.49, **bound(2)) == set()
    assert at(1.51, **bound(2)) == {"staleness_at_bound"}
    assert at(0.9, **bound(1)) == set()  # between fresh and bound there is nothing
    assert at(9.0, schedule="relay") == at(9.0, schedule="sync") == at(9.0) == set()
    assert at(2.3, schedule="streaming") == {"staleness_at_bound"}  # its own default is 3


def test_the_ramp_may_last_half_of_the_run() -> None:
    assert names({}, ppo={"updates": 10, "ramp_updates": 5}) == set()
    assert names({}, ppo={"updates": 10, "ramp_updates": 6}) == {"never_at_full_rate"}
    assert names({}, ppo={"updates": 10, "value_warmup_updates": 6}) == {"never_at_full_rate"}
    by_groups = {"updates": 10, "value_warmup_updates": 6}
    assert names({}, ppo=by_groups, credit="group") == set()


def test_forgetting_needs_having_known() -> None:
    def shares(early: float, late: float) -> set[str]:
        both = {"batch.touches_early": constant(early), "batch.touches_late": constant(late)}
        return names(both)

    assert shares(0.51, 0.24) == {"forgets_the_request"}
    assert shares(0.49, 0.24) == shares(0.51, 0.26) == set()


def test_hidden_tests_fall_only_where_visible_ones_rise() -> None:
    def moves(visible: float, hidden: float, noise: float = 0.0) -> set[str]:
        def path(rise: float) -> list[tuple[int, float]]:
            return [(s, 0.5 + rise * (s > 5) + noise * (s % 3 - 1)) for s in range(9)]

        return names({"batch.visible_solved": path(visible), "batch.solved": path(hidden)})

    assert moves(0.11, -0.11) == {"hidden_tests_fall"}
    assert moves(0.09, -0.11) == moves(0.11, -0.09) == moves(0.11, 0.11) == set()
    # Deviation 0.1 in each third of 3: a standard error of 0.082, three of which are 0.245.
    assert moves(0.25, -0.25, noise=0.1) == {"hidden_tests_fall"}
    assert moves(0.24, -0.25, noise=0.1) == moves(0.25, -0.24, noise=0.1) == set()


def test_equal_groups_matter_where_groups_are_compared() -> None:
    equal = {"batch.groups_equal": constant(0.76)}
    assert names(equal, credit="group") == {"equal_groups"}
    assert names(equal, credit="turn_gae") == names(equal) == set()
    assert names({"batch.groups_equal": constant(0.74)}, credit="group") == set()


def test_late_credit_needs_a_late_reward_and_many_turns() -> None:
    def late(reward: float, turns: float, gamma: float) -> set[str]:
        series = {"batch.last_reward": constant(reward), "batch.turns": constant(turns)}
        return names(series, credit="turn_gae", ppo={"gamma": gamma})

    assert late(0.91, 8, 0.91) == {"credit_too_late"}
    assert late(0.89, 8, 0.91) == late(0.91, 7, 0.5) == late(0.91, 8, 0.92) == set()


def test_waiting_and_breaking_are_relative() -> None:
    def waits(times: float) -> set[str]:
        return names({"queue_wait_s_p50": constant(5 * times), "episode_s_p50": constant(5.0)})

    def breaks(share: float) -> set[str]:
        return names({"infra_errors": constant(64 * share), "trajectories": constant(64.0)})

    def drops(number: int) -> set[str]:
        counts = LedgerCounts(launches=100, dropped={"not needed": number})
        return {f.name for f in diagnose(RunFacts("run", {}, counts=counts))}

    assert (waits(1.9), waits(2.1)) == (set(), {"queue_wait"})
    assert (breaks(0.04), breaks(0.06)) == (set(), {"infra_errors"})
    assert (drops(10), drops(11)) == (set(), {"dropped"})
