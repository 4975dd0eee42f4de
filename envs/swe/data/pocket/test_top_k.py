import pytest
from top_k import kth_largest, rank, top_k


def test_two_of_many():
    assert top_k([3, 9, 1, 7], 2) == [9, 7]


def test_more_than_there_are():
    assert top_k([2, 5], 10) == [5, 2]


def test_zero():
    assert top_k([1, 2], 0) == []


def test_equal_items():
    assert top_k([4, 4, 1], 2) == [4, 4]


def test_negative_k():
    with pytest.raises(ValueError):
        top_k([1], -1)


def test_rank():
    assert rank([10, 20, 30], 30) == 1
    assert rank([10, 20, 30], 20) == 2
    assert rank([10, 20, 30], 5) == 4


def test_rank_of_ties():
    assert rank([7, 7, 3], 7) == 1


def test_kth():
    assert kth_largest([5, 1, 9], 1) == 9
    assert kth_largest([5, 1, 9], 3) == 1


def test_kth_out_of_range():
    with pytest.raises(IndexError):
        kth_largest([1, 2], 3)
    with pytest.raises(IndexError):
        kth_largest([1, 2], 0)
