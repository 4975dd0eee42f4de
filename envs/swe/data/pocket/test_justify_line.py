import pytest
from justify_line import gaps, justify_line


def test_gaps_even():
    assert gaps(3, 6) == [2, 2, 2]
    assert gaps(1, 4) == [4]


def test_gaps_uneven():
    assert gaps(3, 7) == [3, 2, 2]
    assert gaps(3, 5) == [2, 2, 1]


def test_two_words():
    assert justify_line("ab cd", 8) == "ab    cd"
    assert justify_line("ab cd", 5) == "ab cd"


def test_three_words():
    assert justify_line("a b c", 7) == "a  b  c"
    assert justify_line("a b c", 8) == "a   b  c"


def test_last_line():
    assert justify_line("ab cd", 8, True) == "ab cd   "
    assert justify_line("a  b c", 7, last=True) == "a b c  "


def test_single_word():
    assert justify_line("word", 6) == "word  "
    assert justify_line("word", 4) == "word"


def test_no_words():
    assert justify_line("", 3) == "   "
    assert justify_line("  ", 0) == ""


def test_too_wide():
    with pytest.raises(ValueError):
        justify_line("ab cd", 4)
    with pytest.raises(ValueError):
        justify_line("word", 3)


def test_old_spaces_do_not_count():
    assert justify_line("  ab     cd ", 6) == "ab  cd"
