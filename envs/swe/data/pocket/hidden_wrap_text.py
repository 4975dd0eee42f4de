import pytest
from wrap_text import chop, wrap_text


def test_chop_exact_and_short():
    assert chop("abcdef", 6) == ["abcdef"]
    assert chop("ab", 9) == ["ab"]
    assert chop("abc", 1) == ["a", "b", "c"]


def test_sentence():
    text = "the quick brown fox jumps over"
    assert wrap_text(text, 11) == ["the quick", "brown fox", "jumps over"]
    assert wrap_text(text, 9) == ["the quick", "brown fox", "jumps", "over"]


def test_boundary_with_one_more():
    assert wrap_text("abc de f", 8) == ["abc de f"]
    assert wrap_text("abc de f", 7) == ["abc de", "f"]


def test_comment_prefix():
    lines = wrap_text("item one goes on and on", 10, "# ")
    assert lines == ["# item one", "# goes on", "# and on"]


def test_prefix_with_chopping():
    assert wrap_text("go abcdefg", 5, "* ") == [
        "* go", "* abc", "* def", "* g"
    ]


def test_nothing_to_wrap():
    assert wrap_text(" \t\n", 4, "; ") == []


def test_room_errors():
    with pytest.raises(ValueError, match="letters"):
        wrap_text("word", -3)
    with pytest.raises(ValueError, match="letters"):
        wrap_text("", 2, "12345")
    assert wrap_text("a", 1, "") == ["a"]
