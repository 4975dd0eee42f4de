import pytest
from rotate_list import interleave, rotate, split_at


def test_rotate_right():
    assert rotate([1, 2, 3, 4], 1) == [4, 1, 2, 3]


def test_rotate_left():
    assert rotate([1, 2, 3, 4], -1) == [2, 3, 4, 1]


def test_rotate_zero_and_full():
    assert rotate([1, 2, 3], 0) == [1, 2, 3]
    assert rotate([1, 2, 3], 3) == [1, 2, 3]


def test_rotate_far():
    assert rotate([1, 2, 3], 7) == [3, 1, 2]


def test_rotate_empty():
    assert rotate([], 3) == []


def test_interleave_equal():
    assert interleave([1, 2], [8, 9]) == [1, 8, 2, 9]


def test_interleave_rest():
    assert interleave([1], [7, 8, 9]) == [1, 7, 8, 9]
    assert interleave([1, 2, 3], [7]) == [1, 7, 2, 3]


def test_split():
    assert split_at([1, 2, 3], 1) == ([1], [2, 3])


def test_split_negative():
    with pytest.raises(IndexError):
        split_at([1], -1)


def test_split_zero():
    assert split_at([1, 2], 0) == ([], [1, 2])
