import pytest
from bracket_match import deepest, first_error, partner


def test_code_line():
    assert first_error("if (a[0] == {b: (c)}) {}") == -1
    assert first_error("print(a[0)]") == 9


def test_first_of_two_errors():
    assert first_error("(}]") == 1
    assert first_error("))") == 0
    assert first_error("[[[") == 0


def test_open_after_good_part():
    assert first_error("[a]{b}(c") == 6
    assert first_error("[a]{b}c)") == 7


def test_every_wrong_pair():
    for text in ("(]", "(}", "[)", "[}", "{)", "{]"):
        assert first_error(text) == 1
    for text in ("()", "[]", "{}"):
        assert first_error(text) == -1


def test_levels():
    assert deepest("") == 0
    assert deepest("[]([])(([]))[]") == 3
    assert deepest("{{}}{}") == 2


def test_levels_need_matching():
    with pytest.raises(ValueError):
        deepest("]")
    with pytest.raises(ValueError):
        deepest("[]{")


def test_partner_of_inner():
    text = "f(g(x), [1, (2)])"
    assert partner(text, 1) == 16
    assert partner(text, 3) == 5
    assert partner(text, 8) == 15
    assert partner(text, 12) == 14


def test_no_partner():
    with pytest.raises(LookupError):
        partner("a(b[c)d]", 1)
    with pytest.raises(LookupError):
        partner("()(", 2)
