import pytest
from dedupe_stable import dedupe_stable, duplicates, squeeze


def test_first_kept():
    assert dedupe_stable([3, 1, 3, 2, 1]) == [3, 1, 2]
    assert dedupe_stable([]) == []


def test_last_kept():
    assert dedupe_stable([3, 1, 3, 2, 1], keep="last") == [3, 2, 1]
    assert dedupe_stable("abcab", None, "last") == ["c", "a", "b"]


def test_key():
    words = ["Tea", "tea", "Milk", "MILK", "egg"]
    assert dedupe_stable(words, str.lower) == ["Tea", "Milk", "egg"]


def test_key_with_last():
    words = ["Tea", "tea", "Milk", "MILK", "egg"]
    expected = ["tea", "MILK", "egg"]
    assert dedupe_stable(words, str.lower, "last") == expected


def test_bad_keep():
    with pytest.raises(ValueError):
        dedupe_stable([1], None, "middle")


def test_input_stays():
    items = [1, 2, 1]
    assert dedupe_stable(items, keep="last") == [2, 1]
    assert items == [1, 2, 1]


def test_duplicates():
    assert duplicates([5, 2, 7, 2, 5, 2]) == [5, 2]
    assert duplicates([1, 2, 3]) == []


def test_duplicates_least():
    assert duplicates([5, 2, 7, 2, 5, 2], 3) == [2]
    assert duplicates("aab", 1) == ["a", "b"]


def test_squeeze():
    assert squeeze([1, 1, 2, 2, 2, 1]) == [1, 2, 1]
    assert squeeze("hello") == ["h", "e", "l", "o"]


def test_squeeze_short():
    assert squeeze([]) == []
    assert squeeze([None]) == [None]
