"""The ledger's conservation law under any order of calls, refusals, reopenings and restarts."""

from __future__ import annotations

import tempfile
from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from agentic_gym.errors import StoreError
from agentic_gym.store import LaunchRecord, LedgerCounts, RunStore
from agentic_gym.types import Outcome, Trajectory

IDS = st.integers(0, 11).map(lambda i: f"t{i}")


def trajectory(trajectory_id: str, outcome: Outcome = Outcome.FAILED) -> Trajectory:
    return Trajectory(
        trajectory_id, "task", "group", 0, "", (), None, outcome, terminated=True, truncated=False
    )


class LedgerMachine(RuleBasedStateMachine):
    """A plain dictionary says what the store must hold."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.store = RunStore(self.folder.name)
        self.state: dict[str, str] = {}
        self.broken: set[str] = set()
        self.reasons: dict[str, str] = {}
        self.order: list[str] = []
        self.batches: dict[int, list[str]] = {}
        self.trained: set[int] = set()
        self.refused = 0

    def teardown(self) -> None:
        self.store.close()
        self.folder.cleanup()

    def batched(self) -> set[str]:
        return {i for ids in self.batches.values() for i in ids}

    @rule(ids=st.lists(IDS, min_size=1, max_size=4, unique=True))
    def launch(self, ids: list[str]) -> None:
        records = [LaunchRecord(i, "task", "group", 0, 0) for i in ids]
        if any(self.state.get(i) in {"buffered", "trained", "dropped"} for i in ids):
            with pytest.raises(StoreError):
                self.store.launch(records)
            return
        self.store.launch(records)
        self.state.update(dict.fromkeys(ids, "launched"))

    @rule(i=IDS, verb=st.sampled_from(["finish", "carry"]), broken=st.booleans())
    def keep(self, i: str, verb: str, broken: bool) -> None:
        record = trajectory(i, Outcome.INFRA_ERROR if broken else Outcome.FAILED)
        call = getattr(self.store, verb)
        state = self.state.get(i)
        if state is None:
            with pytest.raises(StoreError):
                call(record)
            return
        assert call(record) == (state in {"launched", "carried"})
        if state in {"trained", "dropped"}:
            self.refused += 1
        elif state != "buffered":
            self.state[i] = "buffered" if verb == "finish" else "carried"
            (self.broken.add if broken else self.broken.discard)(i)
            if verb == "finish":
                self.order.append(i)

    @rule(i=IDS, reason=st.sampled_from(["late", "broke"]))
    def drop(self, i: str, reason: str) -> None:
        if i not in self.state or i in self.batched():
            with pytest.raises(StoreError):
                self.store.drop(i, reason)
            return
        self.store.drop(i, reason)
        if self.state[i] != "dropped":
            self.state[i], self.reasons[i] = "dropped", reason

    @rule(update=st.integers(1, 5), ids=st.lists(IDS, max_size=3))
    def record_any_batch(self, update: int, ids: list[str]) -> None:
        fresh = [i for i in self.buffered() if i not in self.broken]
        legal = bool(ids) and set(ids) <= set(fresh) and len(set(ids)) == len(ids)
        if update in self.batches:
            legal = self.batches[update] == ids
        if not legal:
            with pytest.raises(StoreError):
                self.store.record_batch(update, ids)
            return
        self.store.record_batch(update, ids)
        self.batches[update] = ids

    @precondition(lambda self: len(self.batches) < 5)
    @rule(size=st.integers(1, 3))
    def record_next_batch(self, size: int) -> None:
        ids = [i for i in self.buffered() if i not in self.broken][:size]
        if ids:
            self.record_any_batch(max(self.batches, default=0) + 1, ids)

    @rule(update=st.integers(1, 5))
    def train(self, update: int) -> None:
        if update not in self.batches:
            with pytest.raises(StoreError):
                self.store.mark_trained(update)
            return
        self.store.mark_trained(update)
        self.trained.add(update)
        self.state.update(dict.fromkeys(self.batches[update], "trained"))

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = RunStore(self.folder.name)

    def buffered(self) -> list[str]:
        batched = self.batched()
        return [i for i in self.order if self.state[i] == "buffered" and i not in batched]

    @invariant()
    def agrees(self) -> None:
        states = Counter(self.state.values())
        assert self.store.check_conservation() == LedgerCounts(
            launches=len(self.state),
            in_flight=states["launched"],
            carried=states["carried"],
            buffered=states["buffered"],
            trained=states["trained"],
            dropped=dict(Counter(self.reasons.values())),
            refused=self.refused,
        )
        assert [t.trajectory_id for t in self.store.buffered()] == self.buffered()
        assert self.store.batches_after(0) == sorted(self.batches.items())
        unfinished = {i for i, state in self.state.items() if state in {"launched", "carried"}}
        assert {r.trajectory_id for r in self.store.in_flight()} == unfinished


TestLedger = LedgerMachine.TestCase
TestLedger.settings = settings(
    deadline=None, derandomize=True, max_examples=30, stateful_step_count=30
)
