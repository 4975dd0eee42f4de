"""The relay schedule under everything that can happen, and its repacking against brute force."""

from __future__ import annotations

import itertools
import math
import random
import statistics

from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_gym.trainers.schedules import base
from agentic_gym.trainers.schedules.checking import Promises, Weather, check_schedule
from agentic_gym.trainers.schedules.relay import Relay
from agentic_gym.trainers.schedules.repack import Move, ReplicaUse, plan_repack

RETRIES = 1


class Watched:
    """Follows the actions on its own account, and checks what the schedule promises of its replicas."""

    def __init__(
        self,
        batch_size: int,
        group_size: int,
        *,
        concurrent: int,
        batch: int,
        buffer: int,
        max_staleness: int | None,
        repack_seconds: float,
    ) -> None:
        self.relay = Relay(
            batch_size,
            group_size,
            max_concurrent=concurrent,
            roofline_batch=batch,
            buffer_size=buffer,
            max_staleness=max_staleness,
            repack_seconds=repack_seconds,
            max_retries=RETRIES,
            max_lost_groups=10**6,
        )
        self.state_dict, self.load_state_dict = self.relay.state_dict, self.relay.load_state_dict
        self.size, self.concurrent, self.batch, self.buffer = batch_size, concurrent, batch, buffer
        self.newest = 0
        self.training = False
        self.serves: dict[int, int] = {}
        self.loading: set[int] = set()
        self.where: dict[str, int] = {}  # replica of what runs
        self.version: dict[str, int] = {}  # of what is known
        self.done: set[str] = set()
        self.sizes: dict[int, int] = {}
        self.completed_at: dict[int, int] = {}  # updates emitted when a group became complete
        self.emitted = 0
        self.waits: list[int] = []

    def handle(self, event: base.Event) -> list[base.Action]:
        self._see(event)
        actions = self.relay.handle(event)
        for action in actions:
            self._follow(action)
        self._check()
        return actions

    def _see(self, event: base.Event) -> None:
        match event:
            case base.Begun():
                self.newest, self.training = event.version, False
                self.serves, self.loading = dict(event.replicas), set()
                self.where, self.done = {}, {k.trajectory_id for k in event.finished}
                known = [*event.parked, *event.finished]
                self.version = {k.trajectory_id: k.version for k in known}
                self.sizes = {}
                for name in self.version:
                    group = base.parse_id(name)[0]
                    self.sizes[group] = self.sizes.get(group, 0) + 1
                self.completed_at = {}
                for name in self.done:
                    self._complete(name)
            case base.Finished(name):
                if name in self.version and name not in self.done:
                    self.where.pop(name, None)
                    self.done.add(name)
                    self._complete(name)
            case base.Trained(version):
                self.newest, self.training = version, False
            case base.Published(version, replica) | base.ReplicaUp(replica, version):
                self.serves[replica] = version
                self.loading.discard(replica)
            case base.ReplicaDown(replica):
                del self.serves[replica]
                self.loading.discard(replica)
                self.where = {n: r for n, r in self.where.items() if r != replica}

    def _complete(self, name: str) -> None:
        group = base.parse_id(name)[0]
        members = [n for n in self.done if base.parse_id(n)[0] == group]
        if len(members) == self.sizes[group]:
            self.completed_at[group] = self.emitted

    def _follow(self, action: base.Action) -> None:
        match action:
            case base.Launch(group, size, replica):
                assert self.serves[replica] == self.newest, "launched under old weights"
                self.sizes[group] = size
                for member in range(size):
                    name = base.trajectory_id(group, member)
                    self.version[name] = self.newest
                    self._place(name, replica)
            case base.Retry(name, replica):
                staying = {v for r, v in self.serves.items() if r not in self.loading}
                if name not in self.where:
                    assert self.version[name] not in staying, "its prefix was of use"
                self.version[name] = self.serves[replica]
                self._place(name, replica)
            case base.Resume(name, replica):
                assert name not in self.where
                assert self.serves[replica] == self.version[name], "carried on by another version"
                self._place(name, replica)
            case base.Migrate(name, replica):
                old = self.where[name]
                assert self.serves[old] == self.serves[replica] < self.newest
                self._place(name, replica)
            case base.Drop(name):
                self._forget(name)
            case base.Emit(names):
                self._emit(names)
            case base.Publish(replicas):
                assert replicas is not None
                for replica in replicas:
                    assert replica not in self.where.values(), "it runs something"
                    assert self.serves[replica] < self.newest, "nothing new to load"
                    assert replica not in self.loading
                self.loading |= set(replicas)
            case _:
                raise AssertionError(f"{action} is not for this schedule")

    def _place(self, name: str, replica: int) -> None:
        assert replica not in self.loading, "it is about to change its weights"
        self.where[name] = replica

    def _forget(self, name: str) -> None:
        del self.version[name]
        self.where.pop(name, None)
        self.done.discard(name)
        self.completed_at.pop(base.parse_id(name)[0], None)

    def _emit(self, names: tuple[str, ...]) -> None:
        assert not self.training
        self.training = True

        def age(group: int) -> tuple[int, int]:
            size = self.sizes[group]
            return min(self.version[base.trajectory_id(group, m)] for m in range(size)), group

        chosen = list(dict.fromkeys(base.parse_id(name)[0] for name in names))
        assert chosen == sorted(self.completed_at, key=age)[: len(chosen)], "not the oldest"
        self.waits += [self.emitted - self.completed_at[group] for group in chosen]
        self.emitted += 1
        for name in names:
            self._forget(name)

    def _check(self) -> None:
        # What is parked keeps its place.
        assert len(self.version) - len(self.done) <= self.concurrent
        assert len(self.version) <= self.buffer
        for replica, version in self.serves.items():
            count = list(self.where.values()).count(replica)
            assert count <= self.batch
            if not count and version < self.newest and replica not in self.loading:
                # All that keeps an empty replica from loading is that it could carry something on.
                parked = self.version.keys() - self.where.keys() - self.done
                assert any(self.version[name] == version for name in parked)
        assert self.relay.replica_versions == self.serves
        if self.waits:
            assert max(self.waits) < math.ceil(self.buffer / self.size)


weathers = st.builds(
    Weather,
    failure=st.sampled_from([0.0, 0.1, 0.4]),
    death=st.sampled_from([0.0, 0.05, 0.2]),
    restart=st.sampled_from([0.0, 0.05]),
    echo=st.sampled_from([0.0, 0.3]),
    refusal=st.sampled_from([0.0, 0.3]),
)


def long_tailed(rng: random.Random) -> float:
    return min(rng.lognormvariate(0.0, 1.5), 60.0)


@settings(deadline=None, derandomize=True, max_examples=90)
@given(
    seed=st.integers(0, 10**6),
    groups=st.integers(1, 4),
    group_size=st.integers(1, 3),
    replicas=st.integers(1, 4),
    slots=st.integers(1, 16),
    weather=weathers,
    late=st.sampled_from([None, 0, 1, 2, 3]),
    data=st.data(),
)
def test_the_contract_holds_with_one_version_each(
    seed: int,
    groups: int,
    group_size: int,
    replicas: int,
    slots: int,
    weather: Weather,
    late: int | None,
    data: st.DataObject,
) -> None:
    size = groups * group_size
    concurrent = data.draw(st.integers(group_size, 20), "concurrent")
    batch = data.draw(st.integers(group_size, 8), "batch")
    buffer = data.draw(st.integers(size, 4 * size), "buffer")
    repack_seconds = data.draw(st.sampled_from([0.5, 3.0, math.inf]), "repack_seconds")
    # A new attempt, under newer weights, has all of the time again.
    calm = not weather.death and not weather.restart
    wait = late * (RETRIES + 1 if weather.failure else 1) if calm and late is not None else None
    made: list[Watched] = []

    def make() -> Watched:
        made.append(
            Watched(
                size,
                group_size,
                concurrent=concurrent,
                batch=batch,
                buffer=buffer,
                max_staleness=late,
                repack_seconds=repack_seconds,
            )
        )
        return made[-1]

    report = check_schedule(
        make,
        Promises(size, group_size, max_staleness=late, max_wait=wait, single_version=True),
        weather=weather,
        seed=seed,
        updates=7,
        slots=slots,
        replicas=replicas,
        calm_first=False,
    )
    if not weather.restart:
        seen = made[-1].relay.staleness_histogram
        trained = [episode.staleness for episode in report.trained]
        assert seen == {late: trained.count(late) for late in set(trained)}


@settings(deadline=None, derandomize=True, max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    group_size=st.integers(1, 2),
    replicas=st.integers(3, 5),
    weather=weathers,
    late=st.sampled_from([None, 2]),
)
def test_the_contract_holds_where_much_is_repacked(
    seed: int, group_size: int, replicas: int, weather: Weather, late: int | None
) -> None:
    check_schedule(
        lambda: Watched(
            4,
            group_size,
            concurrent=16,
            batch=12,
            buffer=40,
            max_staleness=late,
            repack_seconds=0.5,
        ),
        Promises(4, group_size, max_staleness=late, single_version=True),
        weather=weather,
        seed=seed,
        updates=10,
        slots=16,
        replicas=replicas,
        length=long_tailed,
        calm_first=False,
    )


def run(seed: int, repack_seconds: float) -> tuple[float, float, Relay]:
    """Seconds of a run of 20 updates, launches a second, and the schedule."""
    schedule = Relay(8, max_concurrent=32, roofline_batch=16, repack_seconds=repack_seconds)
    report = check_schedule(
        lambda: schedule,
        Promises(8, single_version=True),
        seed=seed,
        slots=32,
        replicas=4,
        length=long_tailed,
        calm_first=False,
    )
    return report.seconds, len(report.episodes) / report.seconds, schedule


def test_repacking_saves_time_and_makes_room_for_launches() -> None:
    # Measured over these seeds: 38.7 s without and 28.8 s with, 4.9 and 6.8 launches a second.
    never = [run(seed, math.inf) for seed in range(20)]
    often = [run(seed, 3.0) for seed in range(20)]
    assert statistics.mean(r[0] for r in often) < statistics.mean(r[0] for r in never)
    assert statistics.mean(r[1] for r in often) > statistics.mean(r[1] for r in never)
    assert all(schedule.num_migrations == 0 for _, _, schedule in never)
    assert all(schedule.num_migrations >= schedule.num_repacks > 0 for _, _, schedule in often)


# ---- the plan ----------------------------------------------------------------------------------------

# Of one source: moved or not, load that results, its destination, negated.
Choice = tuple[int, int, int]


def outcome(
    sources: list[ReplicaUse], goals: tuple[int | None, ...], uses: list[ReplicaUse], batch: int
) -> list[Choice] | None:
    """What these choices of a destination come to, source by source; None if they break the rule."""
    kv = {use.replica: use.kv_used for use in uses}
    requests = {use.replica: use.requests for use in uses}
    capacity = {use.replica: use.kv_capacity for use in uses}
    result: list[Choice] = []
    received: set[int] = set()
    for source, goal in zip(sources, goals, strict=True):
        if goal is None:
            result.append((0, 0, 0))
            continue
        number = source.replica
        if number in received or goal == number or not requests[goal]:
            return None
        kv[goal] += kv[number]
        requests[goal] += requests[number]
        kv[number] = requests[number] = 0
        if kv[goal] > capacity[goal] or requests[goal] > batch:
            return None
        received.add(goal)
        result.append((1, kv[goal], -goal))
    return result


def by_brute_force(uses: list[ReplicaUse], batch: int) -> set[Move]:
    """Of all choices for all sources, the one that is best for the first source, then the second, ..."""
    moves: set[Move] = set()
    for version in {use.version for use in uses}:
        same = [use for use in uses if use.version == version]
        sources = sorted(
            (
                use
                for use in same
                if use.kv_used < min(use.kv_capacity, use.kv_previous) and 0 < use.requests < batch
            ),
            key=lambda use: (use.kv_used, use.replica),
        )
        best: list[Choice] = []
        for goals in itertools.product([None, *(u.replica for u in same)], repeat=len(sources)):
            result = outcome(sources, goals, same, batch)
            if result is not None and result > best:
                best = result
        moves |= {
            Move(source.replica, -choice[2])
            for source, choice in zip(sources, best, strict=True)
            if choice[0]
        }
    return moves


@settings(deadline=None, derandomize=True, max_examples=300)
@given(
    fields=st.lists(
        st.tuples(
            st.integers(0, 1),  # version
            st.integers(0, 4),  # requests
            st.integers(0, 12),  # tokens
            st.integers(0, 14),  # tokens before
            st.integers(10, 16),  # capacity
        ),
        max_size=5,
    ),
    batch=st.integers(1, 8),
    order=st.randoms(use_true_random=False),
)
def test_the_plan_is_the_rule(
    fields: list[tuple[int, int, int, int, int]], batch: int, order: random.Random
) -> None:
    uses = [ReplicaUse(number, *rest) for number, rest in enumerate(fields)]
    plan = plan_repack(uses, batch)
    assert set(plan) == by_brute_force(uses, batch)
    sources, destinations = [m.source for m in plan], [m.destination for m in plan]
    assert len(set(sources)) == len(sources)
    assert not set(sources) & set(destinations)
    for number in set(destinations):
        here = [uses[number], *(uses[m.source] for m in plan if m.destination == number)]
        assert sum(use.kv_used for use in here) <= uses[number].kv_capacity
        assert sum(use.requests for use in here) <= batch
        assert len({use.version for use in here}) == 1
    shuffled = order.sample(uses, len(uses))
    assert plan_repack(shuffled, batch) == plan
