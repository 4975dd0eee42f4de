import pytest
from expand_tabs import expand_tabs, tab_indent


def test_default_stops():
    assert expand_tabs("1234567\tx") == "1234567 x"
    assert expand_tabs("12345678\tx") == "12345678        x"


def test_size_three():
    assert expand_tabs("a\tbb\tccc\td", 3) == "a  bb ccc   d"


def test_same_as_builtin():
    for text in ("\t\ta", "ab\t\tc", "x\ty\nzz\tw", "a b\tc\t"):
        assert expand_tabs(text, 5) == text.expandtabs(5)


def test_trailing_tab():
    assert expand_tabs("abc\t", 5) == "abc  "


def test_sizes_refused():
    with pytest.raises(ValueError):
        expand_tabs("\t", -4)
    with pytest.raises(ValueError):
        tab_indent(" x", 0)


def test_indent_round_trip():
    line = " " * 13 + "code"
    assert tab_indent(line) == "\t     code"
    assert expand_tabs(tab_indent(line)) == line


def test_indent_small_size():
    assert tab_indent("     y z", 2) == "\t\t y z"
    assert tab_indent(" \t y", 3) == "\t y"
    assert tab_indent("", 3) == ""
