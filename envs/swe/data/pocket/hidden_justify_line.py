import pytest
from justify_line import gaps, justify_line


def test_gap_shares():
    assert gaps(4, 10) == [3, 3, 2, 2]
    assert gaps(4, 4) == [1, 1, 1, 1]
    assert gaps(5, 9) == [2, 2, 2, 2, 1]


def test_four_words():
    line = justify_line("we go to bed", 14)
    assert line == "we  go  to bed"
    assert len(justify_line("we go to bed", 17)) == 17


def test_exact_fit_three():
    assert justify_line("one two six", 11) == "one two six"
    with pytest.raises(ValueError):
        justify_line("one two six", 10)


def test_last_line_too_wide():
    with pytest.raises(ValueError):
        justify_line("one two", 6, True)
    assert justify_line("one two", 7, True) == "one two"


def test_one_letter():
    assert justify_line("x", 1) == "x"
    assert justify_line("x", 4) == "x   "


def test_wide_line():
    assert justify_line("a b c d", 11) == "a   b  c  d"
