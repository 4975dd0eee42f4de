import pytest
from edit_distance import edit_distance, similarity, suggest


def test_is_symmetric():
    pairs = [("intention", "execution", 5), ("book", "back", 2)]
    for one, two, steps in pairs:
        assert edit_distance(one, two) == steps
        assert edit_distance(two, one) == steps


def test_one_letter():
    assert edit_distance("a", "b") == 1
    assert edit_distance("a", "") == 1
    assert edit_distance("", "b") == 1


def test_ends_and_middle():
    assert edit_distance("xabc", "abc") == 1
    assert edit_distance("abcx", "abc") == 1
    assert edit_distance("abc", "axxbc") == 2
    assert edit_distance("ab", "ba") == 2


def test_swap_price():
    assert edit_distance("kitten", "sitting", 2) == 5
    assert edit_distance("rain", "shine", 0) == 1
    assert edit_distance("aa", "bb", 3) == 4


def test_suggest_sorts_by_steps_then_name():
    known = ["tone", "ton", "zone", "one", "bone", "on"]
    expected = ["one", "bone", "on", "tone", "zone", "ton"]
    assert suggest("one", known) == expected
    assert suggest("one", known, 0) == ["one"]


def test_suggest_same_length_but_far():
    known = ["xyc", "xyz", "abcde", "abcdef"]
    assert suggest("abc", known) == ["abcde", "xyc"]
    assert suggest("", ["a", "bb", "ccc"]) == ["a", "bb"]


def test_negative_limit():
    with pytest.raises(ValueError):
        suggest("word", ["word"], -2)
    assert suggest("word", ["word"], 0) == ["word"]


def test_similar_words():
    assert similarity("night", "nacht") == pytest.approx(0.6)
    assert similarity("abcde", "a") == pytest.approx(0.2)
    assert similarity("q", "") == 0
