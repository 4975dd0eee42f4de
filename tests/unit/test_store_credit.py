"""Credit of trained trajectories in the store."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest

from agentic_gym.errors import StoreError
from agentic_gym.store import LaunchRecord, RunStore, TokenCredit
from agentic_gym.store.credit import decode_credit, encode_credit


def credit(count: int, start: float = 0.0) -> TokenCredit:
    numbers = (np.arange(count) / 3 + start).astype(np.float32)
    return TokenCredit(numbers, -numbers)


def same(one: TokenCredit | None, other: TokenCredit) -> bool:
    return (
        one is not None
        and one.rewards.tobytes() == other.rewards.tobytes()
        and one.advantages.tobytes() == other.advantages.tobytes()
    )


def test_credit_comes_back_and_later_credit_takes_its_place(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        store.record_credit({"a": credit(3), "b": credit(0)})
        store.record_credit({"a": credit(5, start=7.0)})
        assert same(store.credit("a"), credit(5, start=7.0))
        assert same(store.credit("b"), credit(0))
        assert store.credit("c") is None
    with RunStore(tmp_path, readonly=True) as store:
        assert same(store.credit("a"), credit(5, start=7.0))


def test_what_an_estimator_gives_every_token_of_a_turn_takes_little_room() -> None:
    advantages = np.repeat(np.asarray([0.31, -1.7, 0.2], np.float32), 200)
    rewards = np.zeros(600, np.float32)
    rewards[-1] = 1
    assert len(encode_credit(TokenCredit(rewards, advantages))) < 300


def test_a_run_of_an_older_release_is_read_without_credit_and_goes_on_with_it(
    tmp_path: Path,
) -> None:
    RunStore(tmp_path).close()
    with sqlite3.connect(tmp_path / "run.sqlite") as db:
        db.execute("DROP TABLE credit")
    db.close()
    with RunStore(tmp_path, readonly=True) as store:
        assert store.credit("a") is None
    with RunStore(tmp_path) as store:
        store.record_credit({"a": credit(2)})
        assert same(store.credit("a"), credit(2))
    with RunStore(tmp_path) as store:
        assert same(store.credit("a"), credit(2))


@pytest.mark.parametrize(
    "wrong",
    [
        TokenCredit(np.zeros(2, np.float32), np.zeros(3, np.float32)),
        TokenCredit(np.zeros(2), np.zeros(2)),  # type: ignore[arg-type]
        TokenCredit(np.zeros((1, 2), np.float32), np.zeros((1, 2), np.float32)),
    ],
)
def test_arrays_that_do_not_fit_are_refused_and_nothing_is_kept(
    tmp_path: Path, wrong: TokenCredit
) -> None:
    with RunStore(tmp_path) as store:
        with pytest.raises(StoreError, match="must be float32 with one number a sampled token"):
            store.record_credit({"good": credit(1), "bad": wrong})
        assert store.credit("good") is None


def test_damaged_credit_says_so() -> None:
    whole = encode_credit(credit(4))
    for damaged in (b"", whole[:-6], b"nonsense"):
        with pytest.raises(StoreError, match="credit is corrupt"):
            decode_credit(damaged)


def test_a_transaction_keeps_all_or_nothing(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    records = [LaunchRecord("a", "task", "group", 7, 0)]

    def fail() -> None:
        with store.transaction():
            store.launch(records)
            store.put_state("key", 1)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert store.counts().launches == 0
    assert store.get_state("key") is None
    with store.transaction():
        store.launch(records)
        store.log_metrics(1, {"reward": 0.5})
    assert store.counts().launches == 1
    assert store.metrics("reward") == [(1, 0.5)]
    store.close()
