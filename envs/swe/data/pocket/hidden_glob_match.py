import pytest
from glob_match import glob_match, in_class


def test_file_names():
    assert glob_match("test_*.p[yx]", "test_slug.py")
    assert glob_match("test_*.p[yx]", "test_.px")
    assert not glob_match("test_*.p[yx]", "test.py")
    assert not glob_match("test_*.p[yx]", "test_a.pz")


def test_star_tries_all_places():
    assert glob_match("*ab", "aabab")
    assert glob_match("*a?b*", "xxa-bcc")
    assert not glob_match("*ab", "aba")
    assert glob_match("x**y", "xy")


def test_marks_are_not_text():
    assert glob_match("?*?", "ab")
    assert not glob_match("?*?", "a")
    assert glob_match("*", "a b\n c")


def test_dot_is_plain():
    assert not glob_match("a.c", "abc")
    assert glob_match("a.c", "a.c")


def test_class_then_more():
    assert glob_match("[A-C][0-9]*", "B7 rest")
    assert not glob_match("[A-C][0-9]*", "D7")
    assert not glob_match("[A-C][0-9]*", "B")


def test_negated_range():
    assert glob_match("x[!0-9]", "xa")
    assert not glob_match("x[!0-9]", "x4")
    assert not glob_match("x[!0-9]", "x")


def test_open_bracket_is_an_error():
    with pytest.raises(ValueError):
        glob_match("a[bc", "ab")
    with pytest.raises(ValueError):
        glob_match("[", "")


def test_members():
    assert in_class("5", "0-4x5") and in_class("x", "0-4x5")
    assert not in_class("5", "0-4x6-9")
    assert in_class("!", "a!") and not in_class("q", "!p-r")
    assert in_class("9", "!0-8") and not in_class("-", "a-c")
