import pytest
from glob_match import glob_match, in_class


def test_plain():
    assert glob_match("abc", "abc") is True
    assert glob_match("abc", "abd") is False
    assert glob_match("abc", "ab") is False
    assert glob_match("ab", "abc") is False


def test_empty():
    assert glob_match("", "") is True
    assert glob_match("", "a") is False
    assert glob_match("?", "") is False


def test_question_mark():
    assert glob_match("a?c", "abc") is True
    assert glob_match("a?c", "ac") is False
    assert glob_match("??", "a") is False


def test_star():
    assert glob_match("*", "") is True
    assert glob_match("*.py", "main.py") is True
    assert glob_match("*.py", "main.pyc") is False
    assert glob_match("a*", "ba") is False


def test_two_stars():
    assert glob_match("a*b*c", "a-b-b-c") is True
    assert glob_match("a*b*c", "abc") is True
    assert glob_match("a*b*c", "acb") is False


def test_class():
    assert glob_match("[abc]x", "bx") is True
    assert glob_match("[abc]x", "dx") is False
    assert glob_match("[abc]", "") is False


def test_range():
    assert glob_match("v[0-9].txt", "v5.txt") is True
    assert glob_match("v[0-9].txt", "vx.txt") is False


def test_negated():
    assert glob_match("[!ab]", "c") is True
    assert glob_match("[!ab]", "a") is False
    assert glob_match("[!ab]", "") is False


def test_not_closed():
    with pytest.raises(ValueError):
        glob_match("[abc", "a")
    with pytest.raises(ValueError):
        glob_match("[]", "a")


def test_closing_bracket_as_member():
    assert glob_match("[]a]b", "]b") is True


def test_in_class():
    assert in_class("m", "a-fk-z") is True
    assert in_class("h", "a-fk-z") is False
    assert in_class("a", "a-f") and in_class("f", "a-f")


def test_dash_at_the_end():
    assert in_class("-", "ab-") is True
    assert in_class("c", "ab-") is False
    assert in_class("-", "-a") is True
