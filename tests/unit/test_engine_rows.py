import pytest

from agentic_gym.engines.kv_cache import RowTable, common_prefix


def test_a_session_gets_its_row_back() -> None:
    table = RowTable(2)
    row = table.acquire("a")
    assert row is not None
    table.rows[row].tokens = [1, 2]
    assert table.acquire("a") is None, "its row is busy"
    table.free(row)
    assert table.acquire("a") == row
    assert table.rows[row].tokens == [1, 2]


def test_rows_without_a_session_go_first_then_the_least_recently_used() -> None:
    table = RowTable(3)
    a, b, c = table.acquire("a"), table.acquire("b"), table.acquire(None)
    assert {a, b, c} == {0, 1, 2}
    assert table.acquire("d") is None, "all are busy"
    for row in (a, b, c):
        assert row is not None
        table.rows[row].tokens = [7]
        table.free(row)
    assert table.acquire("d") == c
    assert table.acquire("e") == a
    assert a is not None
    assert table.rows[a].tokens == [], "another episode's tokens are not its own"


def test_a_released_session_is_forgotten() -> None:
    table = RowTable(2)
    row = table.acquire("a")
    assert row is not None
    table.free(row)
    table.release("a")
    table.release("unknown")
    assert table.rows[row].session is None


def test_swapped_rows_keep_their_sessions() -> None:
    table = RowTable(2)
    a, b = table.acquire("a"), table.acquire("b")
    assert a is not None
    assert b is not None
    table.swap(a, b)
    table.free(a)
    table.free(b)
    assert table.acquire("a") == b
    assert table.acquire("b") == a


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([], [1]),
        ([1, 2, 3], [1, 2, 3]),
        ([1, 2, 3, 4], [1, 2, 9, 4]),
        ([5], [6]),
        ([1] * 40, [1] * 17),
    ],
)
def test_common_prefix(a: list[int], b: list[int]) -> None:
    expected = 0
    while expected < min(len(a), len(b)) and a[expected] == b[expected]:
        expected += 1
    assert common_prefix(a, b) == common_prefix(b, a) == expected


def test_the_donor_shares_the_longest_prefix() -> None:
    table = RowTable(3)
    table.rows[0].tokens, table.rows[1].tokens = [1, 2, 9], [1, 2, 3, 4]
    assert table.donor([1, 2, 3, 5], exclude=2) == (1, 3)
    assert table.donor([8], exclude=2) == (2, 0)


def test_what_is_outdated_stays_with_its_owner_and_goes_to_nobody_else() -> None:
    table = RowTable(3)
    a, free = table.acquire("a"), table.acquire(None)
    assert a is not None
    assert free is not None
    for row in (a, free):
        table.rows[row].tokens = [1, 2, 3]
        table.free(row)
    table.outdate()
    assert table.donor([1, 2, 3], exclude=2) == (2, 0)
    assert table.acquire("a") == a
    assert table.rows[a].tokens == [1, 2, 3]
    assert [table.acquire(name) for name in "bc"] == [2, free]
    assert table.rows[free].tokens == []
    table.rows[a].cut(2)
    assert table.rows[a].stale
    table.rows[a].cut(0)
    assert not table.rows[a].stale
    table.rows[free].tokens = [1, 2, 3]
    assert table.donor([1, 2, 3], exclude=2) == (free, 3), "what is new may be copied"
