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


def test_prefix():
    assert wrap_text("aa bb cc dd", 7, "> ") == ["> aa bb", "> cc dd"]
    assert wrap_text("aa bb cc", 6, "> ") == ["> aa", "> bb", "> cc"]


def test_prefix_and_long_word():
    assert wrap_text("abcdef", 5, "##") == ["##abc", "##def"]


def test_smallest_room():
    assert wrap_text("ab c", 1) == ["a", "b", "c"]
    assert wrap_text("ab", 2, "-") == ["-a", "-b"]


def test_blank_text():
    assert wrap_text(" \n ", 4) == []
    assert wrap_text("", 4, "#") == []


def test_no_room():
    with pytest.raises(ValueError, match="room"):
        wrap_text("a", 0)
    with pytest.raises(ValueError, match="room"):
        wrap_text("a", 3, "// ")
