import pytest
from bracket_match import deepest, first_error, partner


def test_matching():
    assert first_error("") == -1
    assert first_error("(a[b]{c})") == -1
    assert first_error("()[]{}") == -1


def test_wrong_kind():
    assert first_error("(]") == 1
    assert first_error("a{b)c}") == 3
    assert first_error("[(])") == 2


def test_closing_too_early():
    assert first_error("x)") == 1
    assert first_error("())(") == 2
    assert first_error("}") == 0


def test_never_closed():
    assert first_error("a(b") == 1
    assert first_error("[{()") == 0
    assert first_error("()({}") == 2


def test_deepest():
    assert deepest("none") == 0
    assert deepest("(a)(b)") == 1
    assert deepest("([{}])()") == 3
    assert deepest("{}[[]]") == 2


def test_deepest_refuses():
    with pytest.raises(ValueError):
        deepest("(]")
    with pytest.raises(ValueError):
        deepest("(")


def test_partner():
    assert partner("(a(b)c)d", 0) == 6
    assert partner("(a(b)c)d", 2) == 4
    assert partner("[]", 0) == 1


def test_partner_of_other_brackets():
    assert partner("x = {1: [2]}", 4) == 11
    assert partner("x = {1: [2]}", 8) == 10


def test_partner_missing():
    with pytest.raises(LookupError):
        partner("((a)", 0)
    with pytest.raises(LookupError):
        partner("(a]", 0)
