import pytest
from group_by_key import group_by_key, largest_group, totals


def test_three_labels():
    rows = [{"t": n % 3, "n": n} for n in range(7)]
    groups = group_by_key(rows, "t")
    assert list(groups) == [0, 1, 2]
    assert [row["n"] for row in groups[0]] == [0, 3, 6]
    assert [row["n"] for row in groups[2]] == [2, 5]


def test_all_missing():
    rows = [{"a": 1}, {"b": 2}]
    assert group_by_key(rows, "z") == {"other": rows}
    assert group_by_key(rows, "a", None) == {1: rows[:1], None: rows[1:]}


def test_field_named_by_caller():
    rows = [{"a": "x", "b": "y"}]
    assert list(group_by_key(rows, "b")) == ["y"]


def test_totals_negative():
    rows = [{"w": "p", "n": 5}, {"w": "q", "n": -2}, {"w": "p", "n": -9}]
    assert totals(rows, "w", "n") == {"p": -4, "q": -2}


def test_totals_missing_both():
    assert totals([{}, {"n": 4}, {}], "w", "n") == {"other": 4}


def test_largest_is_last():
    rows = [{"k": 1}, {"k": 2}, {"k": 3}, {"k": 3}]
    assert largest_group(rows, "k") == 3


def test_largest_tie_of_three():
    rows = [{"k": "c"}, {"k": "a"}, {"k": "b"}]
    assert largest_group(rows, "k") == "c"
    assert largest_group(rows, "j") == "other"


def test_largest_needs_records():
    with pytest.raises(ValueError):
        largest_group((), "any")
