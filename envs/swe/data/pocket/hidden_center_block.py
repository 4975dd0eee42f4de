from center_block import center_block, center_line


def test_line_various():
    assert center_line("", 4, ".") == "...."
    assert center_line("xyz", 8, "-") == "--xyz---"
    assert center_line("xyz", 4, "-") == "xyz-"


def test_line_is_cut():
    assert center_line("xyz", 0) == ""
    assert center_line("long line", 4, "*") == "long"
    assert center_line("long line", 8) == "long lin"


def test_block_with_inner_indent():
    got = center_block(["if x:", "  y"], 9)
    assert got == ["  if x:  ", "    y    "]


def test_widest_line_first():
    got = center_block(["hello", "you", ""], 10)
    assert got == ["  hello   ", "  you     ", " " * 10]


def test_separately_odd():
    got = center_block(["abc", "a", "ab"], 6, together=False)
    assert got == [" abc  ", "  a   ", "  ab  "]


def test_separately_too_wide():
    assert center_block([" wide "], 2, False) == ["wi"]


def test_block_exact():
    assert center_block(["abcd", "ab"], 4) == ["abcd", "ab  "]
