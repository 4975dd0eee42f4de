from center_block import center_block, center_line


def test_line_various():
    assert center_line("", 4, ".") == "...."
    assert center_line("xyz", 8, "-") == "--xyz---"
    assert center_line("xyz", 4, "-") == "xyz-"


def test_line_negative_width():
    assert center_line("xyz", -1) == "xyz"


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
    assert center_block([" wide "], 2, False) == ["wide"]


def test_block_exact():
    assert center_block(["abcd", "ab"], 4) == ["abcd", "ab  "]
