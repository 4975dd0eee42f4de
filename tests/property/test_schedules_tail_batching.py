"""Tail batching under everything that can happen, and what its trained lengths are a sample of."""

from __future__ import annotations

import heapq
import math
import random
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_gym.trainers.schedules import base
from agentic_gym.trainers.schedules.checking import CheckReport, Promises, Weather, check_schedule
from agentic_gym.trainers.schedules.sync import Sync
from agentic_gym.trainers.schedules.tail_batching import TailBatching

UPDATES = 10

storms = st.builds(
    Weather,
    failure=st.sampled_from([0.0, 0.1, 0.4]),
    death=st.sampled_from([0.0, 0.05]),
    restart=st.sampled_from([0.0, 0.05]),
    echo=st.sampled_from([0.0, 0.3]),
    refusal=st.sampled_from([0.0, 0.3]),
)
calm = st.builds(
    Weather,
    restart=st.just(0.1),
    echo=st.sampled_from([0.0, 0.3]),
    refusal=st.sampled_from([0.0, 0.3]),
)
sizes = st.tuples(st.integers(1, 4), st.integers(1, 3))
settled = st.fixed_dictionaries(
    {
        "prompt_redundancy": st.sampled_from(["quantile", "expected", 1.0, 1.5, 4.0]),
        "reserve": st.sampled_from([0.0, 0.0, 0.5, 1.0]),
        "max_wait_rounds": st.integers(0, 4),
        "stage": st.booleans(),
    }
)
machines = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 10**6),
        "slots": st.integers(1, 24),
        "replicas": st.integers(1, 3),
    }
)


def check(
    kind: type[TailBatching],
    size: tuple[int, int],
    options: dict[str, Any],
    *,
    keeps_all: bool = True,
    **model: Any,
) -> tuple[CheckReport, int]:
    """A modelled run, held to what the schedule promises; and the wait that it promises."""
    groups, group_size = size

    def make() -> TailBatching:
        return kind(
            groups * group_size, group_size, max_retries=1, max_lost_groups=10**6, **options
        )

    wait = make().max_wait
    promises = Promises(
        groups * group_size,
        group_size,
        max_staleness=wait,
        max_wait=wait,
        keeps_all=keeps_all,
    )
    return check_schedule(make, promises, updates=UPDATES, calm_first=False, **model), wait


@settings(deadline=None, derandomize=True, max_examples=100)
@given(size=sizes, options=settled, weather=storms, machine=machines)
def test_every_group_is_trained_once_and_none_waits_longer_than_promised(
    size: tuple[int, int], options: dict[str, Any], weather: Weather, machine: dict[str, Any]
) -> None:
    report, wait = check(TailBatching, size, options, weather=weather, **machine)
    assert all(list(batch) == sorted(batch) for batch in report.batches)
    trained = [episode.name for episode in report.trained]
    assert len(trained) == len(set(trained))
    early = {e.name for e in report.episodes.values() if e.launched_at < UPDATES - wait}
    assert early <= {*trained, *report.reasons}


@settings(deadline=None, derandomize=True, max_examples=100)
@given(
    size=sizes,
    options=settled,
    carry=st.sampled_from(["resume", "restart"]),
    response_redundancy=st.sampled_from([1.0, 1.25, 2.0]),
    weather=storms,
    machine=machines,
)
def test_the_biased_variants_keep_the_contract_and_say_why_they_drop(
    size: tuple[int, int],
    options: dict[str, Any],
    carry: str,
    response_redundancy: float,
    weather: Weather,
    machine: dict[str, Any],
) -> None:
    options = options | {"carry": carry, "response_redundancy": response_redundancy}
    report, _ = check(TailBatching, size, options, keeps_all=False, weather=weather, **machine)
    allowed = {"broke", "not whole", "rewards are equal"}
    if carry == "restart":
        allowed.add("its task is played anew")
    if response_redundancy > 1:
        allowed.add("of its group are enough")
    for reason in report.reasons.values():
        assert any(text in reason for text in allowed), reason


class Forgetful(TailBatching):
    """Its saved state is lost."""

    def load_state_dict(self, state: Any) -> None:
        pass


class Lagging(TailBatching):
    """Its state is saved now and then only."""

    calls = 0
    last: dict[str, Any]

    def state_dict(self) -> dict[str, Any]:
        if self.calls % 5 == 0:
            self.last = super().state_dict()
        self.calls += 1
        return self.last


@pytest.mark.parametrize("kind", [Forgetful, Lagging])
@settings(deadline=None, derandomize=True, max_examples=60)
@given(size=sizes, options=settled, weather=calm, machine=machines)
def test_the_ledger_is_enough_after_a_restart(
    kind: type[TailBatching],
    size: tuple[int, int],
    options: dict[str, Any],
    weather: Weather,
    machine: dict[str, Any],
) -> None:
    check(kind, size, options, weather=weather, **machine)


@settings(deadline=None, derandomize=True, max_examples=40)
@given(size=sizes, weather=storms, machine=machines)
def test_without_redundancy_it_is_the_synchronous_schedule(
    size: tuple[int, int], weather: Weather, machine: dict[str, Any]
) -> None:
    report, _ = check(TailBatching, size, {"prompt_redundancy": 1.0}, weather=weather, **machine)
    batch, group = size[0] * size[1], size[1]
    other = check_schedule(
        lambda: Sync(batch, group, max_retries=1, max_lost_groups=10**6),
        Promises(batch, group),
        weather=weather,
        updates=UPDATES,
        **machine,
        calm_first=False,
    )
    assert report.batches == other.batches
    assert report.seconds == other.seconds


# ---- what the trained lengths are a sample of ----------------------------------------------------


@dataclass
class Run:
    """Time without limits: every episode has a slot."""

    batches: list[tuple[str, ...]] = field(default_factory=list)
    length: dict[str, float] = field(default_factory=dict)
    launched_at: dict[str, int] = field(default_factory=dict)

    def lengths(self, names: Sequence[str] | None = None) -> list[float]:
        """Of these, or of all trained."""
        return [self.length[n] for n in (names or [n for batch in self.batches for n in batch])]


def play(
    schedule: base.Schedule, updates: int, length: Callable[[random.Random], float], seed: int = 0
) -> Run:
    """Drives a schedule through so many updates."""
    run, rng, now, version = Run(), random.Random(seed), 0.0, 0
    ends: list[tuple[float, str]] = []
    left: dict[str, float] = {}  # seconds, of what is parked
    due: dict[str, float] = {}  # of what runs
    events: deque[base.Event] = deque([base.Begun()])
    while version < updates:
        if not events:
            now, name = heapq.heappop(ends)
            if due.get(name) == now:
                del due[name]
                events.append(base.Finished(name, run.length[name]))
            continue
        for action in schedule.handle(events.popleft()):
            match action:
                case base.Launch(group, size):
                    for member in range(size):
                        name = base.trajectory_id(group, member)
                        left[name] = run.length[name] = length(rng)
                        run.launched_at[name] = version
                        due[name] = now + left.pop(name)
                        heapq.heappush(ends, (due[name], name))
                case base.Park(name):
                    left[name] = due.pop(name) - now
                case base.Resume(name):
                    due[name] = now + left.pop(name)
                    heapq.heappush(ends, (due[name], name))
                case base.Drop(name):
                    due.pop(name, None)
                case base.Emit(names):
                    run.batches.append(names)
                    version += 1
                    events.append(base.Trained(version))
                case base.Publish():
                    events.append(base.Published(version))
    return run


def lognormal(rng: random.Random) -> float:
    return rng.lognormvariate(0.0, 1.0)


def largest_gap(first: Sequence[float], second: Sequence[float]) -> float:
    """The two-sample Kolmogorov-Smirnov statistic, over its critical value at a level of 0.001."""
    first, second = sorted(first), sorted(second)
    m, n = len(first), len(second)
    gap = max(
        abs(bisect_right(first, x) / m - bisect_right(second, x) / n) for x in [*first, *second]
    )
    return gap / (1.949 * math.sqrt((m + n) / (m * n)))


@pytest.mark.parametrize("rule", ["quantile", "expected", 1.5])
@pytest.mark.parametrize("group_size", [1, 4])
def test_resuming_trains_what_plain_sampling_trains(rule: str | float, group_size: int) -> None:
    schedule = TailBatching(64 * group_size, group_size, prompt_redundancy=rule)
    run = play(schedule, 30, lognormal)
    names = [name for batch in run.batches for name in batch]
    assert len(names) == len(set(names)) == 30 * 64 * group_size
    early = [name for name, version in run.launched_at.items() if version < 30 - schedule.max_wait]
    # Exactly those launched: no length had a say in it.
    assert set(early) <= set(names)
    assert schedule.num_long_rounds >= 4
    plain = play(Sync(64 * group_size, group_size), 30, lognormal, seed=1)
    assert largest_gap(run.lengths(early), plain.lengths()) < 1


def test_restarting_trains_something_else() -> None:
    run = play(TailBatching(64, carry="restart"), 30, lognormal)
    assert largest_gap(run.lengths(), play(Sync(64), 30, lognormal, seed=1).lengths()) > 1.5


def test_restarting_trains_long_episodes_with_the_square_of_their_share() -> None:
    def two_kinds(rng: random.Random) -> float:
        return 100.0 if rng.random() < 0.2 else rng.uniform(1.0, 2.0)

    shares = {}
    for carry in ("resume", "restart"):
        schedule = TailBatching(512, carry=carry, prompt_redundancy=1.25)
        trained = play(schedule, 10, two_kinds).lengths()
        assert (schedule.num_short_rounds, schedule.num_long_rounds) == (8, 2)
        shares[carry] = sum(length > 50 for length in trained) / len(trained)
    assert shares["resume"] == pytest.approx(0.2, abs=0.02)
    # A little over 0.04: a round with more long groups than it can spare trains some of them.
    assert shares["restart"] == pytest.approx(0.2**2, abs=0.02)


def test_the_race_of_responses_trains_the_short_ones() -> None:
    means = {}
    for factor in (1.0, 1.25):
        schedule = TailBatching(256, 8, prompt_redundancy=1.0, response_redundancy=factor)
        trained = play(schedule, 40, lognormal).lengths()
        means[factor] = sum(trained) / len(trained)
    assert means[1.0] == pytest.approx(1.65, abs=0.07)
    assert means[1.25] == pytest.approx(0.98, abs=0.03)
