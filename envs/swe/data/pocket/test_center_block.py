from center_block import center_block, center_line


def test_line_even_room():
    assert center_line("ab", 6) == "  ab  "
    assert center_line("abc", 5) == " abc "


def test_line_odd_room():
    assert center_line("ab", 5) == " ab  "
    assert center_line("a", 2) == "a "


def test_line_without_room():
    assert center_line("abc", 3) == "abc"
    assert center_line("abcd", 2) == "ab"
    assert center_line("abcd", 3) == "abc"


def test_line_fill():
    assert center_line("hi", 7, "*") == "**hi***"


def test_block_keeps_alignment():
    got = center_block(["ab", "abcd"], 8)
    assert got == ["  ab    ", "  abcd  "]


def test_block_odd_room():
    assert center_block(["abc", "a"], 6) == [" abc  ", " a    "]


def test_block_too_wide():
    assert center_block(["abcdef", "a"], 3) == ["abcdef", "a  "]


def test_each_line_by_itself():
    got = center_block(["ab  ", "  abcd"], 8, False)
    assert got == ["   ab   ", "  abcd  "]


def test_empty_block():
    assert center_block([], 4) == []
    assert center_block([], 4, together=False) == []
    assert center_block([""], 3) == ["   "]
