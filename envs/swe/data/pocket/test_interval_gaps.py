import pytest
from interval_gaps import gaps, longest_gap


def test_nothing_busy():
    assert gaps([], 0, 10) == [(0, 10)]


def test_all_busy():
    assert gaps([(0, 10)], 0, 10) == []


def test_middle():
    assert gaps([(3, 5)], 0, 10) == [(0, 3), (5, 10)]


def test_busy_at_both_ends():
    assert gaps([(0, 2), (8, 10)], 0, 10) == [(2, 8)]


def test_overlapping_busy():
    assert gaps([(1, 6), (2, 4)], 0, 8) == [(0, 1), (6, 8)]


def test_outside_window_is_ignored():
    assert gaps([(-5, 0), (10, 12)], 0, 10) == [(0, 10)]


def test_sticking_out():
    assert gaps([(-5, 3), (9, 20)], 0, 10) == [(3, 9)]


def test_longest():
    assert longest_gap([(2, 3), (9, 10)], 0, 11) == 6
    assert longest_gap([(0, 4)], 0, 4) == 0


def test_reversed_window():
    with pytest.raises(ValueError):
        gaps([], 5, 1)


def test_empty_window():
    assert gaps([], 5, 5) == []
