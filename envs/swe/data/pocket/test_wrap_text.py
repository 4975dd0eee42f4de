import pytest
from wrap_text import chop, wrap_text


def test_chop():
    assert chop("abcdefg", 3) == ["abc", "def", "g"]
    assert chop("abcd", 2) == ["ab", "cd"]
    assert chop("", 3) == []


def test_everything_fits():
    assert wrap_text("one two", 10) == ["one two"]
    assert wrap_text("one two", 7) == ["one two"]


def test_breaks_when_too_wide():
    assert wrap_text("one two", 6) == ["one", "two"]
    assert wrap_text("a bb ccc dddd", 4) == ["a bb", "ccc", "dddd"]


def test_spaces_collapse():
    assert wrap_text("  a \n b   c ", 5) == ["a b c"]
    assert wrap_text("", 5) == []


def test_long_word_is_chopped():
    assert wrap_text("abcdefgh", 3) == ["abc", "def", "gh"]
    assert wrap_text("x abcde y", 3) == ["x", "abc", "de", "y"]


def test_short_rest_joins_next_word():
    assert wrap_text("abcd e f", 3) == ["abc", "d e", "f"]


def test_indent():
    assert wrap_text("aa bb cc dd", 5, 2) == ["aa bb", "  cc", "  dd"]
    assert wrap_text("a b c d e", 4, 1) == ["a b", " c d", " e"]


def test_smallest_width():
    assert wrap_text("ab c", 1) == ["a", "b", "c"]
    assert wrap_text("ab", 2, 1) == ["a", " b"]


def test_bad_numbers():
    with pytest.raises(ValueError):
        wrap_text("a", 0)
    with pytest.raises(ValueError):
        wrap_text("a", 5, -1)
    with pytest.raises(ValueError):
        wrap_text("a", 3, 3)
