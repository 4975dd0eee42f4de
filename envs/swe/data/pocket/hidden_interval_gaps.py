import pytest
from interval_gaps import gaps, longest_gap


def test_touching_busy_leaves_no_gap():
    assert gaps([(2, 4), (4, 6)], 0, 8) == [(0, 2), (6, 8)]


def test_unsorted_busy():
    assert gaps([(7, 8), (1, 2)], 0, 9) == [(0, 1), (2, 7), (8, 9)]


def test_far_outside_does_not_move_cursor():
    assert gaps([(50, 60), (3, 4)], 2, 10) == [(2, 3), (4, 10)]


def test_longest_is_first():
    assert longest_gap([(10, 12), (14, 15)], 0, 16) == 10


def test_reversed_window_for_longest():
    with pytest.raises(ValueError):
        longest_gap([(1, 2)], 9, 3)


def test_one_unit():
    assert gaps([(0, 1), (2, 3)], 0, 3) == [(1, 2)]
