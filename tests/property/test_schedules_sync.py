"""The synchronous schedule under random orders of finishing, failures and restarts."""

from __future__ import annotations

import json
import random
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_gym.trainers.schedules import base
from agentic_gym.trainers.schedules.sync import Sync


class Ledger:
    """What a runtime would keep, and the conservation law."""

    def __init__(self) -> None:
        self.state: dict[str, str] = {}
        self.batches: list[tuple[str, ...]] = []
        self.next_group = 0
        self.halted = False

    def apply(self, actions: list[base.Action]) -> None:
        for action in actions:
            match action:
                case base.Launch(group, size):
                    assert group == self.next_group
                    self.next_group += 1
                    for member in range(size):
                        name = base.trajectory_id(group, member)
                        assert name not in self.state
                        self.state[name] = "running"
                case base.Retry(name):
                    assert self.state[name] == "running"
                case base.Drop(name, reason):
                    assert self.state[name] in {"running", "finished"}
                    assert reason
                    self.state[name] = "dropped"
                case base.Emit(names):
                    assert all(self.state[name] == "finished" for name in names)
                    self.state.update(dict.fromkeys(names, "emitted"))
                    self.batches.append(names)
                case base.Halt():
                    self.halted = True

    def names(self, state: str) -> list[str]:
        return [name for name, own in self.state.items() if own == state]


@settings(deadline=None, derandomize=True, max_examples=150)
@given(
    seed=st.integers(0, 10**6),
    groups=st.integers(1, 4),
    group_size=st.integers(1, 3),
    failure=st.sampled_from([0.0, 0.1, 0.4]),
    restart=st.sampled_from([0.0, 0.05]),
)
def test_conservation_under_any_order_of_events(
    seed: int, groups: int, group_size: int, failure: float, restart: float
) -> None:
    rng = random.Random(seed)
    size = groups * group_size

    def make() -> Sync:
        return Sync(size, group_size, max_retries=1, max_lost_groups=10**6)

    schedule, ledger = make(), Ledger()
    ledger.apply(schedule.handle(base.Begun()))
    version = 0
    for _ in range(80):
        if rng.random() < restart:
            saved = json.loads(json.dumps(schedule.state_dict()))
            schedule = make()
            schedule.load_state_dict(saved)
            running, finished = ledger.names("running"), ledger.names("finished")
            rng.shuffle(finished)
            version = len(ledger.batches)  # recorded batches are trained before rolling goes on
            ledger.apply(schedule.handle(base.Begun(running, finished, ledger.next_group)))
        elif len(ledger.batches) > version:
            version += 1
            assert schedule.handle(base.Trained(version)) == [base.Publish()]
            ledger.apply(schedule.handle(base.Published(version)))
        else:
            name = rng.choice(ledger.names("running"))
            if rng.random() < failure:
                ledger.apply(schedule.handle(base.Failed(name, "sandbox died")))
            else:
                ledger.state[name] = "finished"
                ledger.apply(schedule.handle(base.Finished(name)))
        in_hand = ledger.names("running") + ledger.names("finished")
        # Never more than the batch in hand, never a batch that cannot be filled.
        assert len(in_hand) <= size
        assert ledger.names("running") or len(ledger.batches) > version
    for batch in ledger.batches:
        assert len(batch) == size
        assert list(batch) == sorted(batch)
        of_group = Counter(base.parse_id(name)[0] for name in batch)
        assert set(of_group.values()) == {group_size}
    trained = [name for batch in ledger.batches for name in batch]
    assert len(trained) == len(set(trained))
