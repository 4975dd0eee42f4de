import pytest
from chunked import chunk, pad_last, windows


def test_even():
    assert chunk([1, 2, 3, 4], 2) == [[1, 2], [3, 4]]


def test_rest():
    assert chunk([1, 2, 3, 4, 5], 2) == [[1, 2], [3, 4], [5]]


def test_size_one():
    assert chunk([1, 2], 1) == [[1], [2]]


def test_empty():
    assert chunk([], 3) == []
    assert windows([], 2) == []


def test_bad_size():
    with pytest.raises(ValueError):
        chunk([1], 0)


def test_windows():
    assert windows([1, 2, 3, 4], 2) == [[1, 2], [2, 3], [3, 4]]


def test_window_as_long_as_items():
    assert windows([1, 2], 2) == [[1, 2]]
    assert windows([1, 2], 3) == []


def test_bad_width():
    with pytest.raises(ValueError):
        windows([1], 0)


def test_window_of_one():
    assert windows([4, 5], 1) == [[4], [5]]


def test_pad():
    assert pad_last([[1, 2], [3]], 2, 0) == [[1, 2], [3, 0]]
    assert pad_last([], 2, 0) == []
