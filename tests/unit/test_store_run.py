"""The store of a run: exact records, ledger moves, refusals, resuming."""

from __future__ import annotations

import math
import sqlite3
import threading
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from agentic_gym.errors import StoreError
from agentic_gym.store import LaunchRecord, LedgerCounts, RunStore
from agentic_gym.store.records import decode_trajectory, encode_trajectory
from agentic_gym.types import Outcome, TokenStream, Trajectory, Turn


def stream(num_tokens: int = 5) -> TokenStream:
    rng = np.random.default_rng(num_tokens)
    return TokenStream(
        ids=rng.integers(0, 1000, num_tokens, dtype=np.int32),
        sampled=rng.integers(0, 2, num_tokens).astype(np.bool_),
        logprobs=rng.normal(size=num_tokens).astype(np.float32),
        versions=rng.integers(-1, 9, num_tokens, dtype=np.int32),
        turns=rng.integers(-1, 9, num_tokens, dtype=np.int32),
    )


def trajectory(trajectory_id: str = "a", **changes: Any) -> Trajectory:
    base = Trajectory(
        trajectory_id=trajectory_id,
        task_id="task",
        group_id="group",
        seed=7,
        prompt="fix it",
        turns=(Turn("view", "1: x", -0.01, info={"tests": 3}), Turn("submit", "", 1.0)),
        tokens=stream(),
        outcome=Outcome.SOLVED,
        terminated=True,
        truncated=False,
    )
    return replace(base, **changes)


def launch(store: RunStore, *ids: str) -> None:
    store.launch([LaunchRecord(i, "task", "group", 7, 0) for i in ids])


def finished(store: RunStore, *ids: str) -> None:
    launch(store, *ids)
    for i in ids:
        store.finish(trajectory(i))


def assert_same(one: Trajectory, other: Trajectory) -> None:
    for item in fields(Trajectory):
        if item.name != "tokens":
            assert repr(getattr(one, item.name)) == repr(getattr(other, item.name)), item.name
    assert (one.tokens is None) == (other.tokens is None)
    for item in fields(TokenStream) if one.tokens and other.tokens else ():
        left, right = getattr(one.tokens, item.name), getattr(other.tokens, item.name)
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RunStore]:
    with RunStore(tmp_path) as made:
        yield made


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"tokens": None},
        {"tokens": stream(0)},
        {"turns": ()},
        {"prompt": "nul \0, lone \ud800, two \ud83d\ude42, emoji 🙂"},
        {"error": "sandbox died", "outcome": Outcome.INFRA_ERROR, "terminated": False},
        {"metrics": {"x": math.nan, "y": math.inf, "z": 0.1 + 0.2}, "tags": {"split": "train"}},
        {"turns": (Turn("a", "b", 1e-300, "length", 0.25, 1 / 3, {"n": [1, {"k": None}]}),)},
    ],
)
def test_records_come_back_exactly(changes: dict[str, Any]) -> None:
    original = trajectory(**changes)
    assert_same(decode_trajectory(encode_trajectory(original)), original)


def test_records_take_numpy_numbers_and_refuse_other_objects() -> None:
    turn = Turn("a", "b", 0.0, info=MappingProxyType({"n": np.int64(3)}))
    taken = decode_trajectory(encode_trajectory(trajectory(turns=(turn,))))
    assert taken.turns[0].info == {"n": 3}
    with pytest.raises(StoreError, match="set is not JSON"):
        encode_trajectory(trajectory(turns=(Turn("a", "b", 0.0, info={"x": {1}}),)))


def test_records_refuse_arrays_that_would_change() -> None:
    wide = replace(stream(), logprobs=np.zeros(5))  # type: ignore[arg-type]
    with pytest.raises(StoreError, match="cannot be stored"):
        encode_trajectory(trajectory(tokens=wide))
    short = replace(stream(), turns=np.zeros(4, np.int32))
    with pytest.raises(StoreError, match="turns has shape"):
        encode_trajectory(trajectory(tokens=short))


def test_damaged_records_are_refused() -> None:
    record = encode_trajectory(trajectory())
    with pytest.raises(StoreError, match="corrupt"):
        decode_trajectory(record[: len(record) // 2])


def test_decoded_arrays_can_be_written_to() -> None:
    tokens = decode_trajectory(encode_trajectory(trajectory())).tokens
    assert tokens is not None
    tokens.logprobs[0] = 1.0
    assert tokens.logprobs[0] == 1.0


def test_the_life_of_a_trajectory(store: RunStore) -> None:
    launch(store, "a", "b", "c")
    assert [r.trajectory_id for r in store.in_flight()] == ["a", "b", "c"]
    assert store.finish(trajectory("b"))
    assert store.finish(trajectory("a"))
    store.drop("c", "too_stale")
    assert [t.trajectory_id for t in store.buffered()] == ["b", "a"]
    store.record_batch(1, ["a", "b"])
    assert store.buffered() == []
    assert store.batches_after(0) == [(1, ["a", "b"])]
    store.mark_trained(1)
    assert store.check_conservation() == LedgerCounts(
        launches=3, trained=2, dropped={"too_stale": 1}
    )


def test_carried_prefixes_stay_in_flight_until_they_finish(store: RunStore) -> None:
    launch(store, "a", "b")
    store.carry(trajectory("a", turns=(Turn("view", "x", 0.0),)))
    assert [len(t.turns) for t in store.carried()] == [1]
    assert [r.trajectory_id for r in store.in_flight()] == ["a", "b"]
    assert store.check_conservation() == LedgerCounts(launches=2, in_flight=1, carried=1)
    store.finish(trajectory("a"))
    assert store.carried() == []
    assert [len(t.turns) for t in store.buffered()] == [2]


def test_a_second_finish_changes_nothing(store: RunStore) -> None:
    finished(store, "a", "b", "c")
    assert not store.finish(trajectory("a", prompt="other"))
    assert store.trajectories(["a"])[0].prompt == "fix it"
    assert store.counts().refused == 0
    store.record_batch(1, ["a"])
    store.mark_trained(1)
    store.drop("b", "late")
    assert not store.finish(trajectory("a"))
    assert not store.carry(trajectory("b"))
    assert store.check_conservation().refused == 2


def test_launching_again_updates_the_version_of_what_is_in_flight(store: RunStore) -> None:
    launch(store, "a")
    again = LaunchRecord("a", "task", "group", 7, 5)
    store.launch([again])
    assert store.in_flight() == [again]
    assert store.check_conservation().launches == 1
    store.finish(trajectory("a"))
    with pytest.raises(StoreError, match="buffered: launch under a new id"):
        store.launch([again])


def test_a_launch_is_all_or_nothing(store: RunStore) -> None:
    finished(store, "a")
    with pytest.raises(StoreError, match="'a' was launched before"):
        launch(store, "b", "a")
    assert store.in_flight() == []
    assert store.check_conservation().launches == 1


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (["a", "unknown"], "never launched"),
        (["a", "flying"], "it is launched"),
        (["a", "gone"], "it is dropped"),
        (["a", "used"], "it is in that of update 1"),
        (["a", "a"], "it is in that of update 2"),
        (["a", "broken"], "infra_error"),
        ([], "at least one"),
    ],
)
def test_a_batch_takes_buffered_trajectories_once(
    store: RunStore, ids: list[str], message: str
) -> None:
    finished(store, "a", "used", "gone")
    launch(store, "flying", "broken")
    store.finish(trajectory("broken", outcome=Outcome.INFRA_ERROR))
    store.drop("gone", "late")
    store.record_batch(1, ["used"])
    with pytest.raises(StoreError, match=message):
        store.record_batch(2, ids)
    assert store.batches_after(1) == []
    assert "a" in [t.trajectory_id for t in store.buffered()]


def test_recording_a_batch_again_is_fine_and_changing_it_is_not(store: RunStore) -> None:
    finished(store, "a", "b")
    store.record_batch(1, ["a"])
    store.record_batch(1, ["a"])
    with pytest.raises(StoreError, match="update 1"):
        store.record_batch(1, ["b"])


def test_what_is_in_a_batch_cannot_be_dropped(store: RunStore) -> None:
    finished(store, "a")
    store.record_batch(3, ["a"])
    with pytest.raises(StoreError, match="batch of update 3"):
        store.drop("a", "late")
    with pytest.raises(StoreError, match="needs a reason"):
        store.drop("a", "")


def test_the_first_reason_stays_and_may_hold_any_text(store: RunStore) -> None:
    finished(store, "a")
    store.drop("a", "died: \ud800\0")
    store.drop("a", "again")
    assert store.counts().dropped == {"died: \\ud800\0": 1}
    assert [t.trajectory_id for t in store.finished()] == ["a"]


def test_training_needs_a_batch(store: RunStore) -> None:
    with pytest.raises(StoreError, match="record_batch first"):
        store.mark_trained(1)


def test_records_of_what_is_in_flight_do_not_exist(store: RunStore) -> None:
    launch(store, "a")
    with pytest.raises(StoreError, match="in flight"):
        store.trajectories(["a"])
    with pytest.raises(StoreError, match="never launched"):
        store.trajectories(["b"])


def test_resuming_replays_batches_after_the_newest_checkpoint(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        finished(store, "a", "b", "c", "d")
        launch(store, "e")
        for update, name in enumerate("abc", start=1):
            store.record_batch(update, [name])
            if update < 3:
                (tmp_path / f"checkpoints/{update}").mkdir(parents=True)
                store.mark_trained(update, f"checkpoints/{update}")
    (tmp_path / "checkpoints/2").rmdir()  # deleted since: the one before counts
    with RunStore(tmp_path) as store:
        assert store.latest_checkpoint() == (1, tmp_path / "checkpoints/1")
        assert store.batches_after(1) == [(2, ["b"]), (3, ["c"])]
        assert [t.trajectory_id for t in store.buffered()] == ["d"]
        assert [r.trajectory_id for r in store.in_flight()] == ["e"]
        for update, ids in store.batches_after(1):
            store.record_batch(update, ids)
            store.mark_trained(update)
        assert store.check_conservation() == LedgerCounts(
            launches=5, in_flight=1, buffered=1, trained=3
        )


def test_checkpoints_move_with_their_run(tmp_path: Path) -> None:
    home = tmp_path / "here"
    with RunStore(home) as store:
        assert store.latest_checkpoint() is None
        (home / "checkpoints").mkdir()
        store.record_checkpoint(4, (home / "checkpoints").absolute())
    home.rename(tmp_path / "there")
    with RunStore(tmp_path / "there") as store:
        assert store.latest_checkpoint() == (4, tmp_path / "there/checkpoints")


def test_metrics_keep_the_newest_value_of_a_step(store: RunStore) -> None:
    store.log_metrics(2, {"loss": 1.0, "kl": 0.5})
    store.log_metrics(1, {"loss": math.inf})
    store.log_metrics(2, {"loss": 3.0})
    assert store.metrics("loss") == [(1, math.inf), (2, 3.0)]
    assert store.metrics("absent") == []
    assert store.metric_names() == ["kl", "loss"]
    store.log_metrics(3, {"loss": math.nan})
    assert math.isnan(store.metrics("loss")[-1][1])


def test_evaluations_are_replaced_whole_and_keep_their_order(store: RunStore) -> None:
    store.record_eval("before", [trajectory("a"), trajectory("b")])
    store.record_eval("after", [trajectory("c")])
    store.record_eval("after", [trajectory("d", tokens=None)])
    assert store.evals() == ["before", "after"]
    assert [t.trajectory_id for t in store.eval_trajectories("after")] == ["d"]
    assert [t.trajectory_id for t in store.eval_trajectories("before")] == ["a", "b"]
    assert store.eval_trajectories("absent") == []


def test_state_is_json(store: RunStore) -> None:
    assert store.get_state("rng", "none") == "none"
    store.put_state("rng", {"a": [1, None, "\ud800\udc00"], "n": np.int64(3)})
    assert store.get_state("rng") == {"a": [1, None, "\ud800\udc00"], "n": 3}
    store.put_state("rng", None)
    assert store.get_state("rng", "default") is None
    with pytest.raises(StoreError, match="cannot be stored as JSON: object"):
        store.put_state("rng", object())


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("UPDATE trajectories SET state = 'trained' WHERE id = 'c'", "c is trained in no batch"),
        ("DELETE FROM trajectories WHERE id = 'c'", "4 trajectories of 5 launched"),
        ("UPDATE trajectories SET record = NULL WHERE id = 'a'", "a is trained without a record"),
        ("UPDATE trajectories SET update_id = NULL WHERE id = 'a'", "update 1 has 0 of 1"),
        ("UPDATE trajectories SET reason = NULL WHERE id = 'd'", "d is dropped without a reason"),
        ("UPDATE updates SET trained = 1 WHERE update_id = 2", "its update 2 says otherwise"),
        ("DELETE FROM updates WHERE update_id = 2", "b is in the batch of an update"),
        (
            "UPDATE trajectories SET state = 'dropped', reason = '' WHERE id = 'a'",
            "a is dropped and",
        ),
        ("UPDATE trajectories SET record = x'00' WHERE id = 'e'", "e is launched and has a record"),
        ("UPDATE trajectories SET outcome = 'infra_error' WHERE id = 'b'", "b broke"),
    ],
)
def test_each_breach_of_the_law_is_named(store: RunStore, damage: str, message: str) -> None:
    finished(store, "a", "b", "c", "d")
    launch(store, "e")
    store.record_batch(1, ["a"])
    store.mark_trained(1)
    store.record_batch(2, ["b"])
    store.drop("d", "late")
    store.check_conservation()
    with sqlite3.connect(store.path) as db:
        db.execute(damage)
    db.close()
    with pytest.raises(StoreError, match=message):
        store.check_conservation()


def test_a_reader_sees_each_commit_and_cannot_write(store: RunStore) -> None:
    with RunStore(store.path, readonly=True) as reader:
        launch(store, "a")
        assert reader.counts().in_flight == 1
        with pytest.raises(StoreError, match="readonly"):
            launch(reader, "b")


def test_threads_share_a_store(store: RunStore) -> None:
    ids = [f"t{i}" for i in range(40)]
    launch(store, *ids)
    threads = [
        threading.Thread(target=lambda part=part: [store.finish(trajectory(i)) for i in part])
        for part in (ids[:10], ids[10:20], ids[20:30], ids[30:], ids[:20])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.check_conservation() == LedgerCounts(launches=40, buffered=40)


def test_a_prefix_grows_by_chunks_and_reads_as_one(store: RunStore) -> None:
    launch(store, "a")
    ids = np.arange(12, dtype=np.int32)
    turns = np.array([-1, -1, 0, 0, 0, 1, 1, 2, 2, 2, 3, 3], dtype=np.int32)
    sampled = np.array([0, 0, 1, 1, 0, 1, 0, 1, 1, 0, 1, 0], dtype=bool)
    versions = np.where(sampled, 3, -1).astype(np.int32)
    whole = TokenStream(ids, sampled, ids.astype(np.float32), versions, turns)
    made = tuple(Turn(f"act {i}", f"see {i}", 0.5 * i) for i in range(4))

    def prefix(count: int) -> Trajectory:
        own = turns < count
        names = [f.name for f in fields(TokenStream)]
        tokens = TokenStream(**{n: getattr(whole, n)[own] for n in names})
        return trajectory("a", turns=made[:count], tokens=tokens, metrics={"duration_s": count})

    for count in (1, 3, 3, 4):
        assert store.carry(prefix(count))
        assert_same(store.carried()[0], prefix(count))
    sizes = [row[0] for row in sqlite3.connect(store.path).execute("SELECT num_turns FROM chunks")]
    assert sizes == [1, 2, 1]
    store.launch([LaunchRecord("a", "task", "group", 7, 4)])  # from nothing
    assert store.carried() == []
    assert store.check_conservation() == LedgerCounts(launches=1, in_flight=1)
    store.carry(prefix(2))
    store.drop("a", "late")
    assert store.carried() == []
    assert store.check_conservation().dropped == {"late": 1}
