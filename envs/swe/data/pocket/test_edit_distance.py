import pytest
from edit_distance import edit_distance, similarity, suggest


def test_equal():
    assert edit_distance("word", "word") == 0
    assert edit_distance("", "") == 0


def test_empty_side():
    assert edit_distance("", "abc") == 3
    assert edit_distance("abcd", "") == 4


def test_single_edits():
    assert edit_distance("cat", "cut") == 1
    assert edit_distance("cat", "cart") == 1
    assert edit_distance("cart", "cat") == 1


def test_classic_words():
    assert edit_distance("kitten", "sitting") == 3
    assert edit_distance("sunday", "saturday") == 3
    assert edit_distance("flaw", "lawn") == 2


def test_dear_swap():
    assert edit_distance("cat", "cut", 2) == 2
    assert edit_distance("cat", "cut", 5) == 2
    assert edit_distance("abc", "xyz", 2) == 6


def test_free_swap():
    assert edit_distance("abc", "xyz", 0) == 0
    assert edit_distance("abc", "wxyz", 0) == 1


def test_suggest():
    known = ["house", "mouse", "horse", "hose", "moss", "garden"]
    assert suggest("house", known) == [
        "house",
        "horse",
        "hose",
        "mouse",
    ]


def test_suggest_limit():
    known = ["a", "ab", "abc", "abcd"]
    assert suggest("a", known, 0) == ["a"]
    assert suggest("a", known, 1) == ["a", "ab"]
    assert suggest("a", known) == ["a", "ab", "abc"]


def test_suggest_nothing():
    assert suggest("xyz", ["abc", "xyzabc"]) == []
    with pytest.raises(ValueError):
        suggest("x", [], -1)


def test_similarity():
    assert similarity("same", "same") == 1.0
    assert similarity("abcd", "abxy") == 0.5
    assert similarity("abc", "xyz") == 0.0
    assert similarity("ab", "abcd") == 0.5


def test_similarity_empty():
    assert similarity("", "") == 1.0
    assert similarity("", "a") == 0.0
