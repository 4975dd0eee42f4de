import pytest
from merge_intervals import covered, merge_intervals


def test_chain_of_three():
    assert merge_intervals([(0, 3), (2, 6), (7, 9)]) == [(0, 9)]


def test_negative_numbers():
    assert merge_intervals([(-5, -3), (-1, 0)]) == [(-5, -3), (-1, 0)]


def test_inner_keeps_outer_end():
    assert merge_intervals([(0, 20), (5, 6), (30, 31)]) == [(0, 20), (30, 31)]


def test_covered_of_overlaps():
    assert covered([(0, 9), (5, 14), (20, 20)]) == 16


def test_refuses_later_reversed():
    with pytest.raises(ValueError):
        covered([(0, 1), (9, 8)])


def test_equal_points_twice():
    assert merge_intervals([(4, 4), (4, 4), (6, 6)]) == [(4, 4), (6, 6)]
