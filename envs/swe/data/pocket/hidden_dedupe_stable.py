import pytest
from dedupe_stable import dedupe_stable, duplicates, squeeze


def test_letters():
    assert "".join(dedupe_stable("mississippi")) == "misp"
    assert "".join(dedupe_stable("mississippi", keep="last")) == "mspi"


def test_key_by_remainder():
    numbers = [10, 21, 30, 41, 52]
    assert dedupe_stable(numbers, lambda n: n % 10) == [10, 21, 52]
    last = dedupe_stable(numbers, lambda n: n % 10, "last")
    assert last == [30, 41, 52]


def test_first_by_name():
    assert dedupe_stable((4, 4, 0), keep="first") == [4, 0]
    assert dedupe_stable([None, None], keep="last") == [None]


def test_keep_is_checked():
    with pytest.raises(ValueError):
        dedupe_stable([], keep="")
    with pytest.raises(ValueError):
        dedupe_stable([], keep="LAST")


def test_generator_input():
    assert dedupe_stable(n // 2 for n in range(6)) == [0, 1, 2]


def test_duplicates_of_words():
    words = "a b c b a d b".split()
    assert duplicates(words) == ["a", "b"]
    assert duplicates(words, 3) == ["b"]
    assert duplicates(words, 4) == []


def test_squeeze_keeps_returns():
    assert squeeze([0, 0, 1, 0, 0]) == [0, 1, 0]
    assert squeeze("  a   b") == [" ", "a", " ", "b"]
    assert squeeze([False, False]) == [False]
