"""Switching among schedules at random boundaries, under everything that can happen."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_gym.trainers.schedules.base import Action, Begun, Event, Schedule, Trained
from agentic_gym.trainers.schedules.bounded_async import BoundedAsync
from agentic_gym.trainers.schedules.checking import Promises, Weather, check_schedule
from agentic_gym.trainers.schedules.plan import Switching
from agentic_gym.trainers.schedules.plan_rules import WeightRelease
from agentic_gym.trainers.schedules.registry import make_schedule
from agentic_gym.trainers.schedules.sync import Sync
from agentic_gym.trainers.schedules.tail_batching import TailBatching

UPDATES = 12
HARDY: Mapping[str, Any] = {"max_retries": 1, "max_lost_groups": 10**6}
Makers = Mapping[str, Callable[[], Schedule]]

SIZES = st.tuples(st.integers(1, 3), st.integers(1, 2)).map(
    lambda pair: (pair[0] * pair[1], pair[1])
)
MACHINES = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 10**6),
        "replicas": st.integers(1, 3),
        "slots": st.integers(1, 12),
        "weather": st.builds(
            Weather,
            failure=st.sampled_from([0.0, 0.1, 0.3]),
            death=st.sampled_from([0.0, 0.05]),
            restart=st.sampled_from([0.0, 0.05]),
            echo=st.sampled_from([0.0, 0.3]),
            refusal=st.sampled_from([0.0, 0.3]),
        ),
    }
)


def plans(*names: str) -> st.SearchStrategy[list[str]]:
    """Name of the schedule of every update."""
    return st.lists(st.sampled_from(names), min_size=UPDATES, max_size=UPDATES)


class Planned(Switching):
    """Switches as a list says, at the start, after updates and after restarts."""

    def __init__(self, makers: Makers, plan: Sequence[str]) -> None:
        at = {
            name: tuple(v for v, planned in enumerate(plan) if planned == name) for name in makers
        }
        rules = [WeightRelease(name, at=versions) for name, versions in at.items() if versions]
        super().__init__(makers, plan[-1], rules, min_updates=1)
        self.plan = plan

    def handle(self, event: Event) -> list[Action]:
        actions = super().handle(event)
        if isinstance(event, Begun | Trained):
            assert self.active == self.plan[min(event.version, UPDATES - 1)]
        return actions


def lengths(rng: random.Random) -> float:
    return rng.uniform(2.0, 5.0) if rng.random() < 0.1 else rng.lognormvariate(-1.0, 0.5)


check = partial(
    check_schedule, updates=UPDATES, length=lengths, train_seconds=0.3, calm_first=False
)


def bounded(batch: int, group: int, eta: int) -> BoundedAsync:
    return BoundedAsync(batch, group, max_staleness=eta, max_concurrent=3 * batch, **HARDY)


@settings(deadline=None, derandomize=True, max_examples=80)
@given(
    sizes=SIZES,
    etas=st.tuples(st.integers(0, 3), st.integers(0, 3)),
    plan=plans("one", "other"),
    machine=MACHINES,
)
def test_between_two_bounds_the_wider_one_holds(
    sizes: tuple[int, int], etas: tuple[int, int], plan: list[str], machine: dict[str, Any]
) -> None:
    makers = {"one": partial(bounded, *sizes, etas[0]), "other": partial(bounded, *sizes, etas[1])}
    promises = Promises(*sizes, max_staleness=max(etas))
    check(lambda: Planned(makers, plan), promises, **machine)


@settings(deadline=None, derandomize=True, max_examples=80)
@given(sizes=SIZES, eta=st.integers(0, 3), plan=plans("sync", "async"), machine=MACHINES)
def test_what_a_synchronous_schedule_takes_over_is_soon_trained(
    sizes: tuple[int, int], eta: int, plan: list[str], machine: dict[str, Any]
) -> None:
    makers: Makers = {
        "sync": partial(Sync, *sizes, stage=True, **HARDY),
        "async": partial(bounded, *sizes, eta),
    }
    # At most eta batches are left over, none sampled more than eta updates ago. Sync takes them in launch
    # order, the asynchronous schedule by age.
    promises = Promises(*sizes, max_staleness=max(0, 2 * eta - 1))
    check(lambda: Planned(makers, plan), promises, **machine)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    sizes=SIZES,
    plan=plans("sync", "bounded_async", "tail_batching", "streaming", "relay"),
    machine=MACHINES,
)
def test_nothing_is_lost_among_all_schedules(
    sizes: tuple[int, int], plan: list[str], machine: dict[str, Any]
) -> None:
    makers = {name: partial(make_schedule, name, *sizes, 2 * sizes[0], **HARDY) for name in plan}
    check(lambda: Planned(makers, plan), Promises(*sizes), **machine)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(sizes=SIZES, plan=plans("sync", "race", "async"), machine=MACHINES)
def test_members_that_only_raced_do_not_swell_the_batches_of_others(
    sizes: tuple[int, int], plan: list[str], machine: dict[str, Any]
) -> None:
    makers: Makers = {
        "sync": partial(Sync, *sizes, stage=True, **HARDY),
        "race": partial(
            TailBatching, *sizes, response_redundancy=1.5, carry="restart", stage=True, **HARDY
        ),
        "async": partial(bounded, *sizes, 2),
    }
    promises = Promises(*sizes, keeps_all=False)
    check(lambda: Planned(makers, plan), promises, **machine)
