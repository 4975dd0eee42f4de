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


def test_hanging_indent():
    lines = wrap_text("item one goes on and on", 10, 3)
    assert lines == ["item one", "   goes on", "   and on"]


def test_indent_and_long_word():
    assert wrap_text("go abcdefg", 5, 2) == ["go", "  abc", "  def", "  g"]


def test_blank_text():
    assert wrap_text(" \t\n", 4, 2) == []


def test_errors():
    with pytest.raises(ValueError):
        wrap_text("word", -3)
    with pytest.raises(ValueError):
        wrap_text("word", 2, 5)
    assert wrap_text("a", 1, 0) == ["a"]
