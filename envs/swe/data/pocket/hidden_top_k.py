import pytest
from top_k import kth_largest, rank, top_k


def test_sorted_input():
    assert top_k([1, 2, 3, 4, 5], 3) == [5, 4, 3]


def test_reversed_input():
    assert top_k([5, 4, 3, 2], 3) == [5, 4, 3]


def test_stable_for_equal():
    assert top_k([1, True, 1.0], 2)[0] is not True


def test_negative_numbers():
    assert top_k([-5, -1, -3], 2) == [-1, -3]


def test_rank_empty():
    assert rank([], 3) == 1


def test_kth_second():
    assert kth_largest([8, 8, 6], 2) == 8
    assert kth_largest([8, 8, 6], 3) == 6


def test_kth_of_nothing():
    with pytest.raises(IndexError):
        kth_largest([], 1)
