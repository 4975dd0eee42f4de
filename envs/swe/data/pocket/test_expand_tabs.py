import pytest
from expand_tabs import expand_tabs, tab_indent


def test_leading_tab():
    assert expand_tabs("\tx") == "        x"
    assert expand_tabs("\tx", 4) == "    x"


def test_tab_after_text():
    assert expand_tabs("ab\tc", 4) == "ab  c"
    assert expand_tabs("abc\td", 4) == "abc d"
    assert expand_tabs("abcd\te", 4) == "abcd    e"


def test_several_tabs():
    assert expand_tabs("a\tb\tc", 4) == "a   b   c"
    assert expand_tabs("\t\tx", 2) == "    x"


def test_newline_resets_column():
    assert expand_tabs("ab\na\tb", 4) == "ab\na   b"
    assert expand_tabs("abc\n\tb", 4) == "abc\n    b"


def test_no_tabs():
    assert expand_tabs("plain text") == "plain text"
    assert expand_tabs("") == ""


def test_bad_size():
    with pytest.raises(ValueError):
        expand_tabs("a", 0)
    assert expand_tabs("a\tb", 1) == "a b"


def test_indent_spaces_to_tabs():
    assert tab_indent("         x") == "\t x"
    assert tab_indent("    x", 4) == "\tx"
    assert tab_indent("          x", 4) == "\t\t  x"


def test_indent_mixed():
    assert tab_indent("  \tx", 4) == "\tx"
    assert tab_indent("\t  x", 4) == "\t  x"


def test_indent_leaves_body():
    assert tab_indent("    a    b", 4) == "\ta    b"
    assert tab_indent("a\tb", 4) == "a\tb"
    assert tab_indent("   ", 2) == "\t "
