import pytest
from chunked import chunk, pad_last, windows


def test_size_over_length():
    assert chunk([1, 2], 9) == [[1, 2]]


def test_chunks_of_text():
    assert chunk("abcdefg", 3) == ["abc", "def", "g"]


def test_all_items_survive():
    items = list(range(17))
    assert sum(chunk(items, 5), []) == items


def test_negative_sizes():
    with pytest.raises(ValueError):
        chunk([1], -2)
    with pytest.raises(ValueError):
        windows([1], -1)


def test_windows_of_three():
    assert windows("abcde", 3) == ["abc", "bcd", "cde"]


def test_pad_full_and_far():
    assert pad_last([[1, 2]], 2, 9) == [[1, 2]]
    assert pad_last([[1]], 4, 9) == [[1, 9, 9, 9]]
