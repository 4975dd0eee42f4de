import pytest
from rotate_list import interleave, rotate, split_at


def test_rotate_two():
    assert rotate(list("abcde"), 2) == list("deabc")


def test_rotate_is_inverse():
    items = [5, 6, 7, 8, 9]
    assert rotate(rotate(items, 3), -3) == items


def test_rotate_copies():
    items = [1, 2]
    assert rotate(items, 2) is not items


def test_interleave_empty_sides():
    assert interleave([], [1, 2]) == [1, 2]
    assert interleave([3, 4], []) == [3, 4]


def test_split_past_end():
    assert split_at([1, 2], 5) == ([1, 2], [])


def test_split_refuses_minus_two():
    with pytest.raises(IndexError):
        split_at([1, 2, 3], -2)
