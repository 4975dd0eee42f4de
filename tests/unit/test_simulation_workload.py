"""What simulated trajectories do: distributions, and the resampling of a recorded run."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from agentic_gym.errors import ConfigError, StoreError
from agentic_gym.metrics import percentiles
from agentic_gym.store import LaunchRecord, RunStore
from agentic_gym.trainers.simulation.trace import TracePlans, plan_of, read_trace
from agentic_gym.trainers.simulation.workload import (
    MEMBER,
    TASK,
    LognormalPlans,
    Plan,
    Workload,
    uniform,
)
from agentic_gym.types import Outcome, TokenStream, Trajectory, Turn


def lengths(workload: Workload, groups: int, size: int) -> npt.NDArray[np.float64]:
    plans = LognormalPlans(workload)
    return np.array(
        [
            [float(sum(plans.plan(group, group, member).tokens)) for member in range(size)]
            for group in range(groups)
        ]
    )


# ---- distributions -------------------------------------------------------------------------------


def test_lengths_have_the_quantiles_of_a_lognormal() -> None:
    workload = Workload(median_tokens=1000, sigma=1, max_tokens=10**6)
    flat = lengths(workload, 2000, 2).ravel()
    found = percentiles(flat.tolist())
    assert found["p50"] == pytest.approx(1000, rel=0.05)
    assert found["p90"] == pytest.approx(1000 * math.exp(1.2816), rel=0.07)
    assert found["p99"] == pytest.approx(1000 * math.exp(2.3263), rel=0.15)


def test_what_would_be_longer_has_its_mass_at_the_cap() -> None:
    flat = lengths(Workload(median_tokens=1000, sigma=1, max_tokens=2718), 2000, 2).ravel()
    assert flat.max() == 2718
    # One standard deviation above the median: 15.9 % of a normal distribution lie beyond.
    assert (flat == 2718).mean() == pytest.approx(0.159, abs=0.02)


@pytest.mark.parametrize("correlation", [0.0, 0.5, 1.0])
def test_lengths_of_one_task_are_correlated(correlation: float) -> None:
    logs = np.log(lengths(Workload(max_tokens=10**7, correlation=correlation), 2000, 2))
    assert np.corrcoef(logs.T)[0, 1] == pytest.approx(correlation, abs=0.05)


def test_a_task_that_is_played_again_keeps_its_difficulty_and_not_its_lengths() -> None:
    plans = LognormalPlans(Workload(sigma=2.0, correlation=0.99, max_tokens=10**6))
    for task in range(50):
        first, again = (plans.plan(task, group, 0).tokens[0] for group in (task, 1000 + task))
        assert first != again
        assert abs(math.log(first / again)) < 2.0  # 0.2 is the standard deviation of each


def test_long_trajectories_have_more_turns() -> None:
    workload = Workload(tokens_per_turn=100, max_turns=7, observation_tokens=30, tool_p50=0.3)
    plans = LognormalPlans(workload)
    for group in range(300):
        plan = plans.plan(group, group, 0)
        total, turns = sum(plan.tokens), len(plan.tokens)
        assert turns == min(7, math.ceil(total / 100))
        assert max(plan.tokens) - min(plan.tokens) <= 1
        assert plan.observations == (30,) * (turns - 1) + (0,)
        assert len(plan.latencies) == turns
        assert plan.prompt + total + sum(plan.observations) <= plans.longest


def test_tool_calls_have_the_published_quantiles_and_a_cut_tail() -> None:
    workload = Workload(
        median_tokens=20_000, tokens_per_turn=1000, tool_p50=0.3, tool_p90=13.5, tool_max=60.0
    )
    plans = LognormalPlans(workload)
    calls = [seconds for group in range(400) for seconds in plans.plan(group, group, 0).latencies]
    found = percentiles(calls, levels=(50, 90))
    assert found["p50"] == pytest.approx(0.3, rel=0.15)
    assert found["p90"] == pytest.approx(13.5, rel=0.15)
    assert max(calls) == 60.0


def test_plans_depend_on_their_names_alone() -> None:
    forwards, backwards = (LognormalPlans(Workload(tool_p50=0.3), seed=4) for _ in range(2))
    names = [(group // 2, group, member) for group in range(20) for member in range(3)]
    there = {name: forwards.plan(*name) for name in names}
    assert there == {name: backwards.plan(*name) for name in reversed(names)}
    assert there != {name: LognormalPlans(Workload(), seed=5).plan(*name) for name in names}


def test_numbers_are_uniform_and_independent_of_their_neighbours() -> None:
    numbers = np.array([[uniform(3, MEMBER, group, m) for m in range(8)] for group in range(1000)])
    counts, _ = np.histogram(numbers, bins=20, range=(0, 1))
    # 8,000 in 20 bins: a chi-square of 19 degrees of freedom, below 43.8 in 999 of 1,000 cases.
    assert ((counts - 400) ** 2 / 400).sum() < 43.8
    assert abs(np.corrcoef(numbers[:, :-1].ravel(), numbers[:, 1:].ravel())[0, 1]) < 0.05
    assert abs(np.corrcoef(numbers[:-1].ravel(), numbers[1:].ravel())[0, 1]) < 0.05
    assert len({uniform(0, stream, 5) for stream in range(4)}) == 4


@pytest.mark.parametrize(
    "values",
    [
        {"tool_p50": 20.0},
        {"tool_p50": 1.0, "tool_p90": 300.0},
        {"median_tokens": 0},
        {"correlation": 1.5},
        {"sigma": float("nan")},
    ],
)
def test_contradictions_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        Workload(**values)


# ---- traces --------------------------------------------------------------------------------------


def recorded(
    name: str,
    task: str,
    turns: list[tuple[int, int]],
    *,
    prompt: int = 5,
    outcome: Outcome = Outcome.FAILED,
) -> Trajectory:
    """A trajectory whose turns sampled and were answered with so many tokens."""
    owners = [-1] * prompt
    sampled = [False] * prompt
    for index, (own, answer) in enumerate(turns):
        owners += [index] * (own + answer)
        sampled += [True] * own + [False] * answer
    size = len(owners)
    stream = TokenStream(
        ids=np.zeros(size, np.int32),
        sampled=np.array(sampled),
        logprobs=np.zeros(size, np.float32),
        versions=np.where(sampled, 0, -1).astype(np.int32),
        turns=np.array(owners, np.int32),
    )
    played = tuple(
        Turn("a", "o", 0.0, generate_s=0.5 * own, step_s=1.0 + index)
        for index, (own, _) in enumerate(turns)
    )
    return Trajectory(
        name, task, "group", 0, "prompt", played, stream, outcome, True, False
    )  # fmt: skip


def make_store(path: Path, *trajectories: Trajectory) -> None:
    with RunStore(path) as store:
        for one in trajectories:
            store.launch([LaunchRecord(one.trajectory_id, one.task_id, one.group_id, one.seed, 0)])
            store.finish(one)


def test_a_recorded_trajectory_becomes_a_plan() -> None:
    plan = plan_of(recorded("a", "t", [(3, 2), (4, 0)]))
    assert plan == Plan(5, (3, 4), (2, 0), (1.0, 2.0))


def test_a_trace_is_resampled_within_its_tasks(tmp_path: Path) -> None:
    make_store(
        tmp_path,
        recorded("a", "easy", [(10, 1)]),
        recorded("b", "easy", [(20, 1)]),
        recorded("c", "hard", [(900, 0), (100, 0)]),
        recorded("d", "hard", [(5, 0)], outcome=Outcome.INFRA_ERROR),
    )
    plans = read_trace(tmp_path)
    assert plans.seconds_per_token == 0.5
    assert plans.longest == 1005
    seen: Counter[tuple[int, ...]] = Counter()
    for task in range(200):
        group = {plans.plan(task, task, member).tokens for member in range(6)}
        assert group <= {(10,), (20,)} or group == {(900, 100)}
        seen.update(plans.plan(task, task, member).tokens for member in range(6))
    assert set(seen) == {(10,), (20,), (900, 100)}
    assert seen[10,] == pytest.approx(300, rel=0.25)
    assert seen[900, 100] == pytest.approx(600, rel=0.25)
    # The file itself may be named, and another seed draws otherwise.
    other = read_trace(tmp_path / "run.sqlite", seed=1)
    assert [plans.plan(n, n, 0) for n in range(20)] != [other.plan(n, n, 0) for n in range(20)]


def test_a_task_stays_the_same_when_it_is_played_again() -> None:
    tasks = [[Plan(1, (index,), (0,), (0.0,))] for index in range(1, 50)]
    plans = TracePlans(tasks)
    assert all(plans.plan(t, t, 0) == plans.plan(t, 999 - t, 3) for t in range(100))


def test_traces_without_anything_to_resample_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no trace at .*give a run folder"):
        read_trace(tmp_path / "nowhere")
    (tmp_path / "run.sqlite").write_text("no database")
    with pytest.raises(StoreError):
        read_trace(tmp_path)
    empty = tmp_path / "empty"
    make_store(empty, recorded("a", "t", [(1, 1)], outcome=Outcome.INFRA_ERROR))
    with pytest.raises(ConfigError, match="holds no finished trajectory with tokens"):
        read_trace(empty)
    with pytest.raises(ConfigError, match="no finished trajectory"):
        TracePlans([[]])


def test_agents_without_tokens_leave_no_plan() -> None:
    with_tokens = recorded("a", "t", [(1, 1)])
    values = {f: getattr(with_tokens, f) for f in Trajectory.__dataclass_fields__}
    assert plan_of(Trajectory(**{**values, "tokens": None})) is None
    assert plan_of(Trajectory(**{**values, "turns": ()})) is None


def test_streams_of_numbers_differ() -> None:
    draws = [[uniform(0, stream, n) for n in range(200)] for stream in (TASK, MEMBER)]
    assert abs(statistics.correlation(*draws)) < 0.2
