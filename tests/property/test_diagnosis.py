"""Healthy runs, whatever their size and noise, raise nothing; faults of any size over a threshold do."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_gym.trainers.diagnosis.facts import RunFacts, gather
from agentic_gym.trainers.diagnosis.findings import NEED, WITHIN, Spell, shift, spell
from agentic_gym.trainers.diagnosis.rules import RULES, diagnose
from agentic_gym.trainers.diagnosis.synthetic import SyntheticRun

BLOCKS, SEEDS = 12, 3
quick = settings(derandomize=True, deadline=None, max_examples=200)


def healthy(seed: int) -> SyntheticRun:
    """Runs differ in length, batch and schedule; of asynchronous ones tokens are older."""
    stale = seed % 4 == 0
    config: Mapping[str, Mapping[str, Any] | str] = {}
    if stale:
        config = {"schedule": "bounded_async", "schedule_options": {"max_staleness": 4}}
    older = {"staleness": lambda update, fresh: min(2.5, 0.5 * update)}
    return SyntheticRun(
        seed=seed,
        updates=3 + seed % 10,
        groups=9 + seed % 6,
        group_size=1 + seed % 3,
        config=config,
        metrics=older if stale else {},
    )


@pytest.mark.parametrize("block", range(BLOCKS))
def test_healthy_runs_raise_nothing(block: int, tmp_path: Path) -> None:
    for seed in range(SEEDS * block, SEEDS * (block + 1)):
        facts = gather(healthy(seed).write(tmp_path / str(seed)))
        assert facts.updates == 3 + seed % 10
        assert diagnose(facts) == (), seed


values = st.lists(st.floats(0, 1) | st.just(math.nan), max_size=30)


def naive(bad: list[bool]) -> tuple[int, int] | None:
    """First and last wrong update of the last stretch, by trying every window."""
    width = min(WITHIN, len(bad))
    starts = [i for i in range(len(bad) - width + 1) if sum(bad[i : i + width]) >= NEED]
    if not starts:
        return None
    first = starts[-1]
    for start in reversed(starts):
        if start + width < first:
            break
        first = min(first, start)
    hits = [i for i in range(first, starts[-1] + width) if bad[i]]
    return hits[0], hits[-1]


@quick
@given(values)
def test_a_spell_is_the_last_stretch_of_windows_that_are_wrong(figures: list[float]) -> None:
    points = list(enumerate(figures, start=1))
    found = spell(points, lambda figure: figure > 0.5)
    expected = naive([figure > 0.5 for figure in figures])
    if expected is None:
        assert found is None
        return
    assert isinstance(found, Spell)
    first, last = expected
    assert found.since == first + 1
    assert found.until in (None, last + 1)
    assert (found.until is None) == (len(figures) - 1 - last <= WITHIN - NEED)
    assert found.figure > 0.5


@quick
@given(st.lists(st.floats(-1e3, 1e3), min_size=6, max_size=30), st.floats(-1e3, 1e3))
def test_a_shift_does_not_depend_on_where_zero_is(figures: list[float], offset: float) -> None:
    plain = shift(list(enumerate(figures)))
    moved = shift([(step, value + offset) for step, value in enumerate(figures)])
    assert plain is not None
    assert moved is not None
    assert moved.rise == pytest.approx(plain.rise, abs=1e-6)
    assert moved.error == pytest.approx(plain.error, abs=1e-4)


NAMES = (
    "entropy", "approx_kl", "stopped_early", "clip_fraction", "grad_norm", "policy_loss", "ess", "value",
    "explained_variance", "staleness", "reward", "update.wait_share", "batch.repeats", "batch.turns",
    "batch.touches_early", "batch.touches_late", "batch.last_reward", "queue_wait_s_p50", "episode_s_p50",
    "grad_norm_layer/layer.0", "trajectories", "infra_errors", "batch.solved", "batch.visible_solved",
    "late_credit_share", "batch.mishaps", "batch.mishap.refused",
)  # fmt: skip
series = st.dictionaries(
    st.sampled_from(NAMES),
    st.lists(st.tuples(st.integers(1, 12), st.floats()), max_size=12, unique_by=lambda p: p[0]).map(
        sorted
    ),
)


@settings(quick, max_examples=100)
@given(series)
def test_no_rule_fails_whatever_was_measured(found: dict[str, list[tuple[int, float]]]) -> None:
    findings = diagnose(RunFacts("any", found, updates=12))
    assert {finding.name for finding in findings} <= {rule.name for rule in RULES}
    for finding in findings:
        assert finding.sentence
        assert "{" not in finding.sentence
        assert finding.name == "gradient_not_finite" or not math.isnan(finding.figure)
