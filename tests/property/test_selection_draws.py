"""Selectors over random runs: exact resume, no task starves, quotas hold, tasks are not chosen by luck."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_gym.trainers.selection import (
    GroupResult,
    TaskFacts,
    TaskSelector,
    make_selector,
    selector_names,
)
from agentic_gym.trainers.selection.band import BandTasks
from agentic_gym.trainers.selection.diversity import Diversity
from agentic_gym.trainers.selection.refill import Refill
from agentic_gym.trainers.selection.weighted import WeightedTasks

SIZE = 4
facts = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from("xyz"), st.none() | st.floats(0, 1)),
    min_size=1,
    max_size=14,
).map(lambda rows: [TaskFacts(f"t{i}", *row) for i, row in enumerate(rows)])


def play(
    tasks: TaskSelector, updates: Sequence[int], groups: int, rng: np.random.Generator
) -> list[str]:
    """Draws of some updates; results are random, some groups are refused, some batches observed late."""
    drawn = []
    for update in updates:
        batch = []
        for number in range(groups):
            drawn.append(tasks.next_task())
            solved = int(rng.integers(0, SIZE + 1))
            trained = bool(rng.random() < 0.8)
            batch.append(GroupResult(update * groups + number, drawn[-1], solved, SIZE, trained))
        tasks.observe(update, batch)
    return drawn


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    name=st.sampled_from(selector_names()),
    tasks=facts,
    seed=st.integers(0, 2**40),
    before=st.integers(0, 6),
    extra=st.integers(0, 3),
    groups=st.integers(1, 5),
)
def test_a_restart_at_any_point_goes_on_with_the_same_draws(
    name: str, tasks: list[TaskFacts], seed: int, before: int, extra: int, groups: int
) -> None:
    whole = make_selector(name, tasks, seed)
    play(whole, range(before), groups, np.random.default_rng(seed))
    for _ in range(extra):  # within a batch
        whole.next_task()
    saved = json.dumps(whole.state_dict(), allow_nan=False)
    resumed = make_selector(name, tasks[::-1] if name != "uniform" else tasks, seed)
    play(resumed, range(3), 2, np.random.default_rng(1))  # whatever it did before is forgotten
    resumed.load_state_dict(json.loads(saved))
    later = [
        play(one, range(before, before + 6), groups, np.random.default_rng(7))
        for one in (whole, resumed)
    ]
    assert later[0] == later[1]
    assert whole.state_dict() == resumed.state_dict()
    assert whole.metrics() == resumed.metrics()


@settings(deadline=None, derandomize=True, max_examples=40)
@given(
    name=st.sampled_from([n for n in selector_names() if n != "uniform"]),
    tasks=facts,
    explore=st.sampled_from([0.1, 0.3, 0.5, 1.0]),
    seed=st.integers(0, 99),
)
def test_no_task_waits_longer_than_exploration_allows(
    name: str, tasks: list[TaskFacts], explore: float, seed: int
) -> None:
    selector = make_selector(name, tasks, seed, explore=explore)
    longest = int(np.ceil(len(tasks) / explore)) + 1
    drawn = play(selector, range(2 * longest // 4 + 1), 4, np.random.default_rng(seed))
    for begin in range(0, len(drawn) - longest, 3):
        assert set(drawn[begin : begin + longest]) == {task.task_id for task in tasks}


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    tasks=facts,
    seed=st.integers(0, 99),
    power=st.sampled_from([0.0, 0.5, 1.0]),
    draws=st.integers(1, 120),
)
def test_at_full_strength_every_class_has_its_share_of_the_draws_to_within_a_few(
    tasks: list[TaskFacts], seed: int, power: float, draws: int
) -> None:
    diversity = Diversity(tasks, class_power=power, strength=1.0)
    selector = WeightedTasks(tasks, seed=seed, diversity=diversity, explore=0.0)
    classes = {task.task_id: task.error_class for task in tasks}
    counts = Counter(classes[selector.next_task()] for _ in range(draws))
    assert abs(sum(diversity.shares.values()) - 1) < 1e-9
    for name, share in diversity.shares.items():
        assert share * draws - (len(diversity.shares) - 1) - 1e-6 <= counts[name]
        assert counts[name] < share * draws + 1 + 1e-6


@settings(deadline=None, derandomize=True, max_examples=60)
@given(facts, st.integers(0, 99), st.floats(0, 1), st.integers(1, 60))
def test_whatever_the_weights_are_a_turn_is_of_one_class_that_has_some(
    tasks: list[TaskFacts], seed: int, strength: float, turns: int
) -> None:
    rng = np.random.default_rng(seed)
    diversity = Diversity(tasks, strength=strength)
    classes = {task.task_id: task.error_class for task in tasks}
    for _ in range(turns):
        weights = rng.random(len(tasks)) * (rng.random(len(tasks)) < 0.5)
        weights[rng.integers(len(tasks))] = 1e-9
        chosen = diversity.take_turn(weights)
        kept = [task for task, weight in zip(diversity.task_ids, chosen, strict=True) if weight > 0]
        assert len({classes[task] for task in kept}) == 1
        assert (chosen[weights == 0] == 0).all()


@settings(deadline=None, derandomize=True, max_examples=100)
@given(
    rewards=st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=4), max_size=60),
    cap=st.integers(0, 4),
    cut=st.integers(0, 60),
)
def test_refills_are_bounded_and_survive_a_restart(
    rewards: list[list[float]], cap: int, cut: int
) -> None:
    refill, in_a_row, refused = Refill(max_in_a_row=cap), 0, []
    for group, values in enumerate(rewards):
        if group == cut:
            saved = json.loads(json.dumps(refill.state_dict()))
            refill = Refill(max_in_a_row=cap)
            refill.load_state_dict(saved)
        result = GroupResult(group, "t", int(sum(values)), len(values))
        verdict = refill.judge(result, values)
        if not verdict.keep:
            refused.append(group)
            assert refill.judge(result, values) == verdict  # asked again, it counts once
        in_a_row = 0 if verdict.keep else in_a_row + 1
        assert in_a_row <= cap
        assert verdict.keep or len(set(values)) == 1
        assert verdict.keep == (verdict.reason != "zero_variance")
    assert [result.group for result in refill.take_refused()] == refused
    assert sum(refill.state_dict()["counts"].values()) == len(rewards)


def test_what_is_trained_has_the_rate_of_its_task() -> None:
    """Σ(solved − tries · p) is a martingale when tasks are chosen by the past alone, so its mean is 0.

    (The mean rate of each task would not do: how often a task is drawn depends on its results, so that
    its mean is biased even where no sample is chosen, as with any adaptive sampling.) Two rules that
    choose the very samples that they train are biased: the band, and the refusal of equal rewards.
    """
    rates = {f"t{i}": p for i, p in enumerate(np.linspace(0.05, 0.95, 10))}
    kept: dict[str, dict[str, list[float]]] = {
        rule: {task: [] for task in rates} for rule in ("task", "band", "refill")
    }
    for seed in range(6):
        rng = np.random.default_rng(seed)
        tasks = BandTasks([TaskFacts(task) for task in rates], seed=seed, spacing=2)
        for update in range(40):
            batch: list[GroupResult] = []
            for _ in range(8):
                task = tasks.next_task()
                batch.append(
                    GroupResult(len(batch), task, int(rng.binomial(SIZE, rates[task])), SIZE)
                )
            tasks.observe(update, batch)
            for result in batch:
                off = result.solved - SIZE * rates[result.task_id]
                kept["task"][result.task_id].append(off)
                if 0.2 <= result.solved / SIZE <= 0.8:
                    kept["band"][result.task_id].append(off)
                if 0 < result.solved < SIZE:
                    kept["refill"][result.task_id].append(off)
    deviations = {
        rule: {
            task: sum(off) / np.sqrt(max(1, len(off)) * SIZE * rates[task] * (1 - rates[task]))
            for task, off in by_task.items()
        }
        for rule, by_task in kept.items()
    }
    assert max(abs(z) for z in deviations["task"].values()) < 3.5
    for rule in ("band", "refill"):
        assert deviations[rule]["t1"] > 5, rule  # p = 0.15: only the lucky groups are left
        assert deviations[rule]["t8"] < -5, rule  # p = 0.85: only the unlucky ones
