"""The streaming schedule under everything that can happen, and its parts against plain definitions."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_gym.trainers.schedules import base
from agentic_gym.trainers.schedules.base import ANY
from agentic_gym.trainers.schedules.checking import Promises, Weather, check_schedule
from agentic_gym.trainers.schedules.fleet import Fleet, share_out
from agentic_gym.trainers.schedules.groups import GroupBook
from agentic_gym.trainers.schedules.model_refusals import REASON
from agentic_gym.trainers.schedules.streaming import Streaming
from agentic_gym.trainers.schedules.window import Window

MANY = settings(deadline=None, derandomize=True, max_examples=100)

CALM = st.builds(
    Weather,
    failure=st.sampled_from([0.0, 0.1, 0.4]),
    echo=st.sampled_from([0.0, 0.3]),
    refusal=st.sampled_from([0.0, 0.3]),
)
ROUGH = st.builds(
    Weather,
    failure=st.sampled_from([0.0, 0.1, 0.4]),
    death=st.sampled_from([0.0, 0.05, 0.2]),
    restart=st.sampled_from([0.0, 0.05]),
    echo=st.sampled_from([0.0, 0.3]),
    refusal=st.sampled_from([0.0, 0.3]),
)


class Sizes:
    """Options of a schedule and of the run that it is driven through."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.group_size = draw(st.integers(1, 3))
        self.batch_size = self.group_size * draw(st.integers(1, 4))
        self.window = draw(st.integers(1, 4))
        self.max_concurrent = self.batch_size + draw(st.integers(1, 2 * self.batch_size))
        self.elastic = self.window > 1 and draw(st.booleans())
        self.run: dict[str, Any] = {
            "seed": draw(st.integers(0, 10**6)),
            "updates": 8,
            "slots": draw(st.integers(1, 24)),
            "replicas": draw(st.integers(1, 5)),
            "train_seconds": draw(st.sampled_from([0.1, 1.0, 5.0])),
        }

    def make(self) -> Streaming:
        return Streaming(
            self.batch_size,
            self.group_size,
            window=self.window,
            max_concurrent=self.max_concurrent,
            elastic=self.elastic,
            max_retries=1,
            max_lost_groups=10**6,
        )

    def promises(self, max_wait: int | None = None) -> Promises:
        return Promises(
            self.batch_size,
            self.group_size,
            max_staleness=self.window,
            max_wait=max_wait,
            single_version=True,
        )


@st.composite
def sizes(draw: st.DrawFn) -> Sizes:
    return Sizes(draw)


class Watched:
    """Passes events on, and holds every action to what the driver's replicas allow."""

    def __init__(self, inner: Streaming, sizes: Sizes, fresh_starts: Counter[int]) -> None:
        self.inner, self.sizes, self.fresh_starts = inner, sizes, fresh_starts
        self.replicas: dict[int, int] = {}
        self.loading: set[int] = set()
        self.lent: set[int] = set()
        self.version = self.next_update = 0
        self.versions: dict[str, int] = {}  # of each trajectory that is not emitted or dropped
        self.running: dict[str, int] = {}  # and where it runs

    def handle(self, event: base.Event) -> list[base.Action]:
        self.observe(event)
        actions = self.inner.handle(event)
        for action in actions:
            self.check(action, event)
        assert self.inner.replica_versions == self.replicas
        assert not self.replicas or self.lent < set(self.replicas), "none generates"
        return actions

    def observe(self, event: base.Event) -> None:
        match event:
            case base.Begun():
                self.replicas, self.version = dict(event.replicas), event.version
                self.next_update = event.version
                known = [*event.parked, *event.finished]
                self.versions = {k.trajectory_id: k.version for k in known}
            case base.Finished(name):
                self.running.pop(name, None)
            case base.Trained(version):
                self.version = self.next_update = version
            case base.Published(version, replica):
                self.replicas[replica] = version
                self.loading.discard(replica)
            case base.ReplicaUp(replica, version):
                self.replicas[replica] = version
            case base.ReplicaDown(replica):
                del self.replicas[replica]
                self.loading.discard(replica)
                self.lent.discard(replica)
                self.running = {n: r for n, r in self.running.items() if r != replica}

    def check(self, action: base.Action, event: base.Event) -> None:
        match action:
            case base.Launch(group, size, replica):
                served = {self.replicas[r] for r in set(self.replicas) - self.lent - self.loading}
                assert self.replicas[replica] == max(served), "not the newest that is served"
                for member in range(size):
                    self.place(base.trajectory_id(group, member), replica, fresh=True)
                assert len(self.running) <= self.sizes.max_concurrent
            case base.Retry(name, replica):
                if not isinstance(event, base.Failed):
                    self.fresh_starts[base.parse_id(name)[0]] += 1
                    served = set(self.replicas.values())
                    assert self.versions[name] not in served - {
                        self.replicas[r] for r in self.loading | self.lent
                    }, "it could go on"
                assert self.replicas[replica] >= self.versions[name], "it is due sooner now"
                self.place(name, replica, fresh=True)
            case base.Resume(name, replica) | base.Migrate(name, replica):
                self.place(name, replica, fresh=False)
            case base.Drop(name):
                self.running.pop(name, None)
                del self.versions[name]
            case base.Publish(replicas, mode):
                assert mode == "wait"
                assert replicas
                assert not set(replicas) & (self.lent | self.loading | set(self.running.values()))
                self.loading.update(replicas)
            case base.Assign(replica, "train"):
                assert replica not in {*self.lent, *self.loading, *self.running.values()}
                self.lent.add(replica)
            case base.Assign(replica, "generate"):
                self.lent.remove(replica)
            case base.Emit(names):
                for name in names:
                    del self.versions[name]
                self.next_update = self.version + 1
                oldest = min(self.versions.values(), default=self.next_update)
                assert self.next_update - oldest <= self.sizes.window, "left behind"

    def place(self, name: str, replica: int, *, fresh: bool) -> None:
        assert replica != ANY
        assert replica not in self.lent | self.loading
        if fresh:
            self.versions[name] = self.replicas[replica]
        assert self.versions[name] == self.replicas[replica], "another version"
        self.running[name] = replica

    def state_dict(self) -> dict[str, Any]:
        return self.inner.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.inner.load_state_dict(state)


@MANY
@given(sizes=sizes(), weather=ROUGH)
def test_one_version_nothing_abandoned_bounded_staleness(sizes: Sizes, weather: Weather) -> None:
    fresh_starts: Counter[int] = Counter()
    report = check_schedule(
        lambda: Watched(sizes.make(), sizes, fresh_starts),
        sizes.promises(),
        weather=weather,
        **sizes.run,
        calm_first=False,
    )
    # Starting again under newer weights, which only deaths and restarts ask for, extends the wait.
    for number, batch in enumerate(report.batches):
        for name in batch:
            starts = 1 + fresh_starts[base.parse_id(name)[0]]
            assert number - report.episodes[name].launched_at <= sizes.window * starts


@MANY
@given(sizes=sizes(), weather=CALM)
def test_no_trajectory_waits_longer_than_the_window(sizes: Sizes, weather: Weather) -> None:
    report = check_schedule(
        sizes.make,
        sizes.promises(max_wait=sizes.window),
        weather=weather,
        **sizes.run,
        calm_first=False,
    )
    assert all("broke 2 times" in r or r == REASON for r in report.reasons.values())


@settings(MANY, max_examples=50)
@given(seed=st.integers(0, 10**6), replicas=st.integers(2, 5), window=st.integers(2, 4))
def test_replicas_help_a_slow_trainer_and_come_back(seed: int, replicas: int, window: int) -> None:
    roles: Counter[str] = Counter()

    class Counted(Streaming):
        def handle(self, event: base.Event) -> list[base.Action]:
            actions = super().handle(event)
            roles.update(a.role for a in actions if isinstance(a, base.Assign))
            if roles["train"] == roles["generate"]:
                return actions
            assert len(self._book.complete) >= 2, "less than a batch, and replicas are lent"
            return actions

    check_schedule(
        lambda: Counted(2, window=window, max_concurrent=8, elastic=True),
        Promises(2, max_staleness=window, max_wait=window, single_version=True),
        seed=seed,
        replicas=replicas,
        updates=8,
        train_seconds=10.0,
        calm_first=False,
    )
    assert 0 < roles["generate"] <= roles["train"]


# ---- parts -----------------------------------------------------------------------------------------

GROUPS = st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=9)  # version, complete


def in_time(versions: list[int], size: int, batch: int, update: int, *, since: int = 0) -> bool:
    """Whether all since a version can be trained in time: the soonest due first, one batch an update."""
    return all(
        update + place // batch <= version + size
        for place, version in enumerate(sorted(versions))
        if version >= since
    )


@MANY
@given(groups=GROUPS, size=st.integers(1, 3), batch=st.integers(1, 3), version=st.integers(0, 4))
def test_a_window_launches_and_emits_exactly_what_leaves_all_in_time(
    groups: list[tuple[int, bool]], size: int, batch: int, version: int
) -> None:
    update = 4
    window = Window(size, batch, update)
    for number, (sampled_by, complete) in enumerate(groups):
        window.enter(sampled_by)
        if complete:
            window.complete(sampled_by, number)
    versions = [sampled_by for sampled_by, _ in groups]
    room = 0  # beside what was launched under a wider window, and is too late already
    while in_time([*versions, *[version] * (room + 1)], size, batch, update, since=version):
        room += 1
    assert window.room(version) == room
    ready = [number for number, (_, complete) in enumerate(groups) if complete]
    if len(ready) == len(groups) >= batch:
        assert window.may_emit(), "all are complete, and the trainer waits"
    if not in_time(versions, size, batch, update):
        return
    good = [
        chosen
        for chosen in itertools.combinations(ready, batch)
        if in_time([v for n, v in enumerate(versions) if n not in chosen], size, batch, update + 1)
    ]
    assert window.may_emit() == bool(good)
    if good:
        oldest = sorted(ready, key=lambda number: (versions[number], number))[:batch]
        assert window.take() == oldest
        assert tuple(sorted(oldest)) in good
        assert window.update == update + 1


@MANY
@given(data=st.data(), size=st.integers(1, 3), batch=st.integers(1, 3))
def test_what_must_go_always_fits(data: st.DataObject, size: int, batch: int) -> None:
    window = Window(size, batch)
    untrained: dict[int, int] = {}
    running: list[int] = []
    for number in itertools.count():
        if number == 40:
            break
        version = data.draw(st.integers(max(0, window.update - size - 1), window.update))
        if window.room(version):
            window.enter(version)
            untrained[number] = version
            running.append(number)
        elif running:
            done = running.pop(data.draw(st.integers(0, len(running) - 1)))
            window.complete(untrained[done], done)
        while window.may_emit():
            update = window.update
            assert all(update - untrained.pop(taken) <= size for taken in window.take())
        assert in_time(list(untrained.values()), size, batch, window.update)
        assert running or len(untrained) < batch


HELD = st.dictionaries(
    st.integers(0, 5), st.tuples(st.integers(0, 20), st.integers(1, 5)), max_size=5
)  # work and replicas of each version


@MANY
@given(old=HELD, newest=st.tuples(st.integers(0, 20), st.integers(0, 5)))
def test_replicas_are_shared_out_in_proportion(
    old: dict[int, tuple[int, int]], newest: tuple[int, int]
) -> None:
    work = {version: pair[0] for version, pair in old.items()} | {6: newest[0]}
    held = {version: pair[1] for version, pair in old.items()} | {6: newest[1]}
    # One by one, to the version with the strongest claim, as the definition says.
    shares = {version: int(work[version] > 0) for version in old}
    left = sum(held.values()) - sum(shares.values())
    shares[6] = max(held[6], min(1, left))
    for _ in range(left - shares[6]):
        growing = [v for v in shares if v == 6 or shares[v] < held[v]]
        shares[max(growing, key=lambda v: (work[v] / (2 * shares[v] + 1), v))] += 1
    assert share_out(work, held, 6) == shares
    assert sum(shares.values()) == sum(held.values())


@MANY
@given(
    old=HELD,
    newest=st.tuples(st.integers(0, 20), st.integers(0, 5)),
    needed=st.dictionaries(st.integers(0, 5), st.integers(0, 6)),
)
def test_what_is_needed_stays_and_nothing_else_changes(
    old: dict[int, tuple[int, int]], newest: tuple[int, int], needed: dict[int, int]
) -> None:
    work = {version: pair[0] for version, pair in old.items()} | {6: newest[0]}
    held = {version: pair[1] for version, pair in old.items()} | {6: newest[1]}
    free = share_out(work, held, 6)
    shares = share_out(work, held, 6, needed)
    assert sum(shares.values()) == sum(held.values())
    for version in old:
        least = min(held[version], needed.get(version, 0))
        assert shares[version] <= held[version]
        if (
            shares[version] < least
        ):  # given up for the newest's only one, and only where nobody had more
            assert shares[6] == 1
            assert all(shares[v] <= max(int(work[v] > 0), needed.get(v, 0)) for v in old)
    assert (shares[6] > 0) == (free[6] > 0)
    if all(free[version] >= needed.get(version, 0) for version in old):
        assert shares == free


@MANY
@given(data=st.data(), number=st.integers(0, 4))
def test_the_ranks_of_replicas_are_what_a_count_says(data: st.DataObject, number: int) -> None:
    book = GroupBook(2)
    fleet = Fleet(book, dict.fromkeys(range(number), 0))
    numbers = st.integers(0, 5)
    for _ in range(data.draw(st.integers(1, 25))):
        replica = data.draw(numbers)
        some = data.draw(st.sets(numbers)) & fleet.versions.keys()
        running = sorted(name for names in book.running_on.values() for name in names)
        match data.draw(st.integers(0, 9)):
            case 0:
                fleet.up(replica, data.draw(st.integers(0, 3)))
            case 1:
                fleet.down(replica)
            case 2:
                fleet.load(some)
            case 3:
                fleet.loaded(replica, data.draw(st.integers(0, 3)))
            case 4:
                fleet.lend(some)
            case 5:
                lent = sorted(fleet.lent)
                assert fleet.recall() == lent
            case 6 if running:
                book.finish(running[0])
            case 7 if running:
                book.migrate(running[-1], replica)
            case _:
                book.launch(0, replica=replica)
        serving: dict[int, list[tuple[int, int]]] = {}
        for r, version in fleet.versions.items():
            if r not in fleet.loading | fleet.lent:
                serving.setdefault(version, []).append((len(book.running_on.get(r, ())), r))
        ranked = {version: sorted(replicas) for version, replicas in serving.items()}
        assert fleet.serving == ranked
        assert fleet.work == {v: sum(load for load, _ in rs) for v, rs in ranked.items()}
        by_number = [(v, sorted(r for _, r in rs)) for v, rs in ranked.items()]
        assert list(fleet.by_number().items()) == sorted(by_number, key=lambda pair: pair[1])
        for version in range(4):
            idle = [r for load, r in ranked.get(version, []) if not load]
            assert fleet.idle(version) == idle
            if version in ranked:
                assert fleet.emptiest(version) == ranked[version][0][1]
