from strip_margin import common_indent, strip_margin


def test_one_line():
    assert strip_margin("   |abc") == "abc"
    assert strip_margin("\t|abc") == "abc"


def test_many_lines():
    assert strip_margin("|a\n  | b\n |c") == "a\n b\nc"


def test_first_and_last_blank_line_dropped():
    assert strip_margin("\n  |one\n  |two\n  ") == "one\ntwo"
    assert strip_margin("one\n") == "one"
    assert strip_margin("  \n |x") == "x"


def test_only_one_blank_line_dropped():
    assert strip_margin("\n\n|x\n\n") == "\nx\n"


def test_unmarked_line_stays():
    assert strip_margin("  |a\n  b\n|c") == "a\n  b\nc"


def test_marker_only_once():
    assert strip_margin(" ||a|b") == "|a|b"


def test_other_marker():
    assert strip_margin("  >> hi\n  >>ho", ">>") == " hi\nho"
    assert strip_margin("  |hi", "#") == "  |hi"


def test_empty_text():
    assert strip_margin("") == ""
    assert strip_margin("\n") == ""
    assert strip_margin(" |") == ""


def test_common_indent():
    assert common_indent("    a\n  b\n   c") == 2
    assert common_indent(" a\n  b") == 1
    assert common_indent("a\n  b") == 0


def test_common_indent_skips_blank_lines():
    assert common_indent("\n   a\n \n     b\n") == 3
    assert common_indent("") == 0
