from __future__ import annotations

from pathlib import Path

import pytest

from agentic_gym.store import RunStore
from agentic_gym.trainers.phase_times import PhaseTimes


class Clock:
    """Goes on when it is told."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def broken(times: PhaseTimes, clock: Clock) -> None:
    with times.phase("evaluate_after"):
        clock.now += 4
        raise ValueError("broken")


def test_what_was_saved_would_survive_a_kill_and_a_resumed_run_adds_to_it(tmp_path: Path) -> None:
    clock = Clock()
    with RunStore(tmp_path) as store:
        times = PhaseTimes(store, clock=clock)
        times.save()  # between phases there is nothing to save
        assert store.get_state("phase_s") is None
        with times.phase("train"):
            for total in (5.0, 10.0):
                clock.now += 5
                times.save()
                assert store.get_state("phase_s") == {"train": total}
            clock.now += 1
        clock.now += 1_000
        resumed = PhaseTimes(store, clock=clock)
        with resumed.phase("train"):
            clock.now += 2
        with pytest.raises(ValueError, match="broken"):
            broken(resumed, clock)
        assert store.get_state("phase_s") == {"train": 13.0, "evaluate_after": 4.0}
