"""The relay chain: exact answers, and a cluster whose relays die, vanish, return and lose weights."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_gym.errors import ConfigError
from agentic_gym.trainers.schedules.relay_chain import (
    NOTHING,
    TRAINER,
    ChainAction,
    ChainEvent,
    Clock,
    Heartbeat,
    NodeJoined,
    NodeLeft,
    Pushed,
    Rebuilt,
    Received,
    RelayChain,
    Send,
)

STEP = 0.1
SILENCE = 0.6  # 0.2 s, missed three times
RESEND = 3.0

# ---- exact answers -----------------------------------------------------------------------------------


def chain_of(*nodes: int) -> RelayChain:
    """All of them hold version 0."""
    chain = RelayChain(resend_seconds=RESEND)
    chain.handle(Pushed(0))
    for node in nodes:
        chain.handle(NodeJoined(node))
    for node in nodes:
        chain.handle(Received(node, 0))
    return chain


def wait(chain: RelayChain, start: float, end: float, *heard: int) -> list[ChainAction]:
    """What is done in this time, in which these relays are heard."""
    actions: list[ChainAction] = []
    for step in range(round(start / STEP), round(end / STEP)):
        now = (step + 1) * STEP
        for node in heard:
            actions += chain.handle(Heartbeat(node, now))
        actions += chain.handle(Clock(now))
    return actions


def test_weights_go_from_the_trainer_to_the_master_and_down_the_chain() -> None:
    chain = chain_of(4, 2, 7)
    assert (chain.master, chain.order) == (4, (4, 2, 7))
    assert chain.handle(Pushed(1)) == [Send(TRAINER, 4, 1)]
    assert chain.handle(Received(4, 1)) == [Send(4, 2, 1)]
    assert chain.handle(Received(2, 1)) == [Send(2, 7, 1)]
    assert chain.versions == {4: 1, 2: 1, 7: 0}
    assert chain.handle(Received(7, 1)) == []


def test_a_version_that_is_overtaken_is_not_sent_on() -> None:
    chain = chain_of(0, 1)
    chain.handle(Pushed(1))
    assert chain.handle(Pushed(2)) == []  # the master is still being sent the one before
    assert chain.handle(Received(0, 1)) == [Send(TRAINER, 0, 2), Send(0, 1, 1)]
    assert chain.handle(Pushed(3)) == []
    assert chain.handle(Pushed(2)) == []  # said once more
    assert chain.handle(Received(0, 2)) == [Send(TRAINER, 0, 3)]
    assert chain.handle(Received(0, 3)) == []
    assert chain.handle(Received(1, 1)) == [Send(0, 1, 3)]


def test_a_dead_relay_is_cut_out_and_who_came_after_it_is_fed_at_once() -> None:
    chain = chain_of(0, 1, 2)
    chain.handle(Pushed(1))
    chain.handle(Received(0, 1))  # on its way to 1, which is dead
    assert wait(chain, 0.0, 0.6, 0, 2) == []
    assert wait(chain, 0.6, 0.7, 0, 2) == [Rebuilt((0, 2)), Send(0, 2, 1)]
    assert chain.versions == {0: 1, 2: 0}


def test_what_a_dead_relay_was_sending_comes_from_the_one_before_it() -> None:
    chain = chain_of(0, 1, 2)
    chain.handle(Pushed(1))
    chain.handle(Received(0, 1))
    assert chain.handle(Received(1, 1)) == [Send(1, 2, 1)]
    assert chain.handle(NodeLeft(1)) == [Rebuilt((0, 2)), Send(0, 2, 1)]


def test_the_first_that_lives_becomes_the_master() -> None:
    chain = chain_of(0, 1, 2)
    assert wait(chain, 0.0, 0.7, 1, 2) == [Rebuilt((1, 2))]
    assert chain.master == 1
    assert chain.handle(Pushed(1)) == [Send(TRAINER, 1, 1)]


def test_the_trainer_sends_again_only_if_the_one_copy_dies() -> None:
    chain = chain_of(0, 1, 2)
    chain.handle(Pushed(1))
    chain.handle(Received(0, 1))
    assert chain.handle(NodeLeft(0)) == [Rebuilt((1, 2)), Send(TRAINER, 1, 1)]
    chain.handle(Received(1, 1))
    assert chain.handle(NodeLeft(1)) == [Rebuilt((2,)), Send(TRAINER, 2, 1)]
    chain.handle(Received(2, 1))
    chain.handle(NodeJoined(3))
    chain.handle(Received(3, 1))
    assert chain.handle(NodeLeft(2)) == [Rebuilt((3,))]


def test_one_that_returns_joins_at_the_end_and_gets_what_it_lacks() -> None:
    chain = chain_of(0, 1, 2)
    wait(chain, 0.0, 0.7, 0, 2)
    chain.handle(Pushed(1))
    chain.handle(Received(0, 1))
    assert chain.handle(Heartbeat(1, 0.8)) == [Rebuilt((0, 2, 1))]  # 2 has nothing newer yet
    assert chain.handle(Received(2, 1)) == [Send(2, 1, 1)]


def test_what_was_on_its_way_to_one_that_vanished_is_sent_again_when_it_returns() -> None:
    chain = chain_of(0, 1)
    chain.handle(Pushed(1))
    assert chain.handle(Received(0, 1)) == [Send(0, 1, 1)]
    assert wait(chain, 0.0, 0.7, 0) == [Rebuilt((0,))]
    assert chain.handle(Heartbeat(1, 0.8)) == [Rebuilt((0, 1)), Send(0, 1, 1)]


def test_a_newer_version_that_comes_late_takes_the_place_of_the_older_one() -> None:
    chain = chain_of(0, 2)
    chain.handle(Pushed(1))
    chain.handle(Received(0, 1))
    chain.handle(Received(2, 1))
    wait(chain, 0.0, 0.7, 0)  # 2 vanishes
    assert chain.handle(NodeJoined(1)) == [Rebuilt((0, 1)), Send(0, 1, 1)]
    assert chain.handle(Heartbeat(2, 0.7)) == [Rebuilt((0, 1, 2))]
    chain.handle(Pushed(2))
    chain.handle(Received(0, 2))
    assert wait(chain, 0.7, 0.7 + RESEND, 0, 1, 2) == [Send(0, 1, 2)]
    assert wait(chain, 3.7, 4.4, 0, 2) == [Rebuilt((0, 2)), Send(0, 2, 2)]
    assert chain.handle(Heartbeat(1, 4.4)) == [Rebuilt((0, 2, 1)), Send(2, 1, 1)]
    assert chain.handle(Received(1, 2)) == []  # from 0, before it vanished
    chain.handle(Received(2, 2))
    chain.handle(NodeLeft(0))
    chain.handle(Pushed(3))
    assert chain.handle(Received(2, 3)) == [Send(2, 1, 3)]


def test_one_that_started_anew_holds_nothing_even_if_nobody_saw_it_die() -> None:
    chain = chain_of(0, 1, 2)
    assert chain.handle(NodeJoined(1)) == [
        Rebuilt((0, 2)),
        Rebuilt((0, 2, 1)),
        Send(2, 1, 0),
    ]
    assert chain.versions == {0: 0, 2: 0, 1: NOTHING}


def test_what_is_lost_is_sent_again() -> None:
    chain = chain_of(0, 1)
    chain.handle(Pushed(1))
    assert wait(chain, 0.0, RESEND - STEP, 0, 1) == []
    chain.handle(Pushed(2))
    assert wait(chain, RESEND - STEP, RESEND, 0, 1) == [Send(TRAINER, 0, 2)]
    assert chain.handle(Received(0, 1)) == [Send(0, 1, 1)]  # it was slow, not lost
    assert chain.versions == {0: 1, 1: 0}
    assert chain.handle(Received(0, 2)) == []
    assert chain.handle(Received(0, 1)) == []  # a copy that came too late
    assert chain.versions == {0: 2, 1: 0}


def test_a_driver_that_slept_buries_nobody() -> None:
    chain = chain_of(0, 1)
    assert chain.handle(Clock(100.0)) == []
    assert wait(chain, 100.0, 100.5, 0) == []
    assert wait(chain, 100.5, 100.7, 0) == [Rebuilt((0,))]


def test_strangers_are_ignored_until_they_say_that_they_started() -> None:
    chain = RelayChain()
    assert chain.master is None
    assert chain.handle(Heartbeat(3, 0.1)) == []
    assert chain.handle(Received(3, 1)) == []
    assert chain.handle(NodeLeft(3)) == []
    assert chain.handle(Pushed(1)) == []
    assert chain.handle(NodeJoined(3)) == [Rebuilt((3,)), Send(TRAINER, 3, 1)]


@pytest.mark.parametrize(
    "options", [{"interval_seconds": 0.0}, {"missed": 0}, {"resend_seconds": float("nan")}]
)
def test_impossible_numbers_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="must be positive"):
        RelayChain(**options)  # type: ignore[arg-type]


# ---- a cluster ---------------------------------------------------------------------------------------


@dataclass
class Process:
    """A relay as it really is."""

    node: int
    holds: int = NOTHING
    lives: bool = True
    cut_off_until: float = 0.0
    acknowledged: int = NOTHING
    sent: int = NOTHING  # newest version that it was ever sent


class Cluster:
    """Relays, the network between them, and a driver; it checks every action.

    Args:
        seed: of everything random.
        nodes: relays at the start.
        loss: probability that a message with weights is lost, or its receipt, or that it is very slow.
    """

    def __init__(self, seed: int, nodes: int, loss: float) -> None:
        self.rng, self.loss = random.Random(seed), loss
        self.chain = RelayChain(resend_seconds=RESEND)
        self.processes: dict[int, Process] = {}
        self.flying: list[tuple[float, Send, Process]] = []
        self.now = 0.0
        self.version = NOTHING
        self.order: tuple[int, ...] = ()
        self.heard: dict[int, float] = {}
        self.pushes = 0
        for node in range(nodes):
            self.start(node)

    # ---- what happens ----------------------------------------------------------------------------

    def start(self, node: int) -> None:
        self.processes[node] = Process(node)
        self.heard[node] = self.now
        self.tell(NodeJoined(node))

    def push(self) -> None:
        self.version += 1
        self.tell(Pushed(self.version))

    def trouble(self) -> None:
        node = self.rng.choice(sorted(self.processes))
        process = self.processes[node]
        match self.rng.randrange(4):
            case 0:
                process.lives = False  # nobody is told
            case 1:
                process.cut_off_until = self.now + self.rng.expovariate(1.0)
            case 2:
                self.start(node)  # as a new process
            case 3:
                process.lives = False
                self.order = tuple(n for n in self.order if n != node)
                self.tell(NodeLeft(node))

    def pass_time(self) -> None:
        self.now += STEP
        for at, send, process in list(self.flying):
            if at <= self.now:
                self.flying.remove((at, send, process))
                self.deliver(send, process)
        for process in list(self.processes.values()):
            if self.reachable(process.node) and self.rng.random() < 0.9:
                self.heard[process.node] = self.now
                self.tell(Heartbeat(process.node, self.now))
        self.tell(Clock(self.now))
        for node in self.order:
            assert self.now - self.heard[node] <= SILENCE + 1e-6, f"{node} is dead for long"

    def deliver(self, send: Send, process: Process) -> None:
        ends = [send.destination] if send.source == TRAINER else [send.source, send.destination]
        lost = self.rng.random() < self.loss or not all(map(self.reachable, ends))
        if lost or self.processes[send.destination] is not process:
            return
        if send.source != TRAINER and self.processes[send.source].holds < send.version:
            return  # its source is a new process by now, which has nothing to send
        process.holds = max(process.holds, send.version)
        if self.rng.random() >= self.loss:
            process.acknowledged = process.holds
            self.tell(Received(process.node, process.holds))

    def reachable(self, node: int) -> bool:
        process = self.processes[node]
        return process.lives and process.cut_off_until <= self.now

    # ---- what is done about it -------------------------------------------------------------------

    def tell(self, event: ChainEvent) -> None:
        for action in self.chain.handle(event):
            match action:
                case Rebuilt(order):
                    assert len(set(order)) == len(order)
                    self.order = order
                case Send():
                    self.send(action)
        assert self.chain.order == self.order
        assert self.chain.versions == {n: self.processes[n].acknowledged for n in self.order}

    def send(self, send: Send) -> None:
        place = self.order.index(send.destination)  # never to the dead
        process = self.processes[send.destination]
        if send.source == TRAINER:
            assert place == 0
            assert send.version == self.version
            self.pushes += 1
        else:
            assert self.order[place - 1] == send.source
            assert self.processes[send.source].acknowledged >= send.version
        assert send.version > process.acknowledged
        assert send.version >= process.sent, "versions go backwards"
        process.sent = send.version
        slow = 6.0 if self.rng.random() < self.loss else 1.0  # longer than until it counts as lost
        self.flying.append((self.now + slow * self.rng.random(), send, process))


def living(cluster: Cluster) -> Iterable[Process]:
    return [process for process in cluster.processes.values() if process.lives]


@settings(deadline=None, derandomize=True, max_examples=100)
@given(
    seed=st.integers(0, 10**6),
    nodes=st.integers(1, 8),
    loss=st.sampled_from([0.0, 0.1, 0.4]),
    troubles=st.sampled_from([0.0, 0.02, 0.1]),
)
def test_every_relay_that_lives_ends_with_the_newest_version(
    seed: int, nodes: int, loss: float, troubles: float
) -> None:
    cluster = Cluster(seed, nodes, loss)
    for _ in range(200):
        if cluster.rng.random() < 0.05:
            cluster.push()
        if cluster.rng.random() < troubles:
            cluster.trouble()
        cluster.pass_time()
    cluster.push()
    cluster.loss = 0.0
    for _ in range(round((10.0 + nodes * (RESEND + 2.0)) / STEP)):
        cluster.pass_time()
    alive = {process.node for process in living(cluster)}
    assert set(cluster.order) == alive
    assert all(process.holds == cluster.version for process in living(cluster))
    assert cluster.chain.versions == dict.fromkeys(alive, cluster.version)


@settings(deadline=None, derandomize=True, max_examples=30)
@given(seed=st.integers(0, 10**6), nodes=st.integers(1, 8))
def test_where_nothing_goes_wrong_the_trainer_sends_each_version_once(
    seed: int, nodes: int
) -> None:
    cluster = Cluster(seed, nodes, loss=0.0)
    for version in range(5):
        cluster.push()
        for _ in range(nodes * 12):
            cluster.pass_time()
        assert cluster.pushes == version + 1
        assert all(process.holds == version for process in living(cluster))
