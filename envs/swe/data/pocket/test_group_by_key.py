import pytest
from group_by_key import group_by_key, largest_group, totals

ROWS = [
    {"city": "Oslo", "sold": 3},
    {"city": "Rome", "sold": 5},
    {"city": "Oslo", "sold": 4},
    {"sold": 1},
]


def test_groups():
    groups = group_by_key(ROWS[:3], "city")
    assert groups == {"Oslo": [ROWS[0], ROWS[2]], "Rome": [ROWS[1]]}


def test_order_of_appearance():
    rows = [{"k": 2}, {"k": 1}, {"k": 2}]
    assert list(group_by_key(rows, "k")) == [2, 1]


def test_missing_label():
    assert group_by_key(ROWS, "city")["other"] == [ROWS[3]]
    assert group_by_key(ROWS, "city", "?")["?"] == [ROWS[3]]


def test_nothing():
    assert group_by_key([], "city") == {}
    assert totals([], "city", "sold") == {}


def test_totals():
    expected = {"Oslo": 7, "Rome": 5, "other": 1}
    assert totals(ROWS, "city", "sold") == expected


def test_totals_without_amount():
    rows = [{"k": "a"}, {"k": "a", "n": 2}, {"k": "b"}]
    assert totals(rows, "k", "n") == {"a": 2, "b": 0}


def test_largest():
    assert largest_group(ROWS, "city") == "Oslo"
    assert largest_group(ROWS[1:2], "city") == "Rome"


def test_largest_on_a_tie():
    rows = [{"k": "x"}, {"k": "y"}, {"k": "y"}, {"k": "x"}]
    assert largest_group(rows, "k") == "x"


def test_largest_comes_later():
    rows = [{"k": "x"}, {"k": "y"}, {"k": "y"}, {"k": "z"}]
    assert largest_group(rows, "k") == "y"


def test_largest_of_nothing():
    with pytest.raises(ValueError):
        largest_group([], "k")
