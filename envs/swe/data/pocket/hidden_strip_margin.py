from strip_margin import common_indent, strip_margin


def test_keeps_trailing_spaces():
    assert strip_margin("  |a  \n  |  b ") == "a  \n  b "


def test_mixed_margin():
    assert strip_margin(" \t |x\n\t\t|y") == "x\ny"


def test_blank_marked_edges():
    assert strip_margin("|\n|mid\n|   ") == "mid"
    assert strip_margin("|\n|\n|mid") == "\nmid"


def test_inner_blank_lines_stay():
    assert strip_margin("|a\n\n|\n|b") == "a\n\n\nb"


def test_long_marker():
    assert strip_margin("  ...wait...\n ..no", "...") == "wait...\n ..no"


def test_two_blank_lines():
    assert strip_margin("  \n  ") == ""
    assert strip_margin("\n\n\n") == "\n"


def test_indent_of_block():
    assert common_indent("     x\n    y\n      z\n    w") == 4
    assert common_indent("   \n  ") == 0
    assert common_indent("\tx\n  y") == 0
    assert common_indent("  one") == 2
