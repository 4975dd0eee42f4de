import pytest
from merge_intervals import covered, merge_intervals


def test_empty():
    assert merge_intervals([]) == []
    assert covered([]) == 0


def test_single():
    assert merge_intervals([(3, 5)]) == [(3, 5)]


def test_overlapping():
    assert merge_intervals([(1, 4), (3, 8)]) == [(1, 8)]


def test_adjacent_integers_join():
    assert merge_intervals([(1, 2), (3, 4)]) == [(1, 4)]


def test_gap_stays():
    assert merge_intervals([(1, 2), (4, 6)]) == [(1, 2), (4, 6)]


def test_contained():
    assert merge_intervals([(1, 9), (2, 3)]) == [(1, 9)]


def test_unsorted_input():
    assert merge_intervals([(8, 9), (1, 2)]) == [(1, 2), (8, 9)]


def test_covered_counts_ends():
    assert covered([(1, 3), (10, 10)]) == 4
    assert covered([(1, 5), (4, 6)]) == 6


def test_reversed_is_refused():
    with pytest.raises(ValueError):
        merge_intervals([(5, 1)])


def test_point_is_allowed():
    assert merge_intervals([(2, 2)]) == [(2, 2)]
