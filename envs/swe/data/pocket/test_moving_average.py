import pytest
from moving_average import moving_average, smooth


def test_window_of_two():
    assert moving_average([1, 3, 5, 9], 2) == [2, 4, 7]


def test_window_of_three():
    assert moving_average([3, 6, 9, 0, 3], 3) == [6, 5, 4]


def test_window_of_one():
    assert moving_average([4, 8], 1) == [4, 8]


def test_window_as_long_as_values():
    assert moving_average([2, 4, 9], 3) == [5]
    assert moving_average([2, 4, 9], 4) == []
    assert moving_average([], 1) == []


def test_window_too_small():
    with pytest.raises(ValueError):
        moving_average([1, 2], 0)
    with pytest.raises(ValueError):
        moving_average([1, 2], -1)


def test_means_are_not_rounded():
    assert moving_average([1, 2, 4], 2) == [1.5, 3]


def test_smooth_half():
    assert smooth([8, 4, 10], 0.5) == [8, 6, 8]


def test_smooth_quarter():
    assert smooth([0, 4, 9], 0.25) == [0, 1, 3]


def test_smooth_full_weight():
    assert smooth([5, 1, 7], 1) == [5, 1, 7]


def test_smooth_short():
    assert smooth([], 0.5) == []
    assert smooth([6], 0.5) == [6]


def test_smooth_bad_weight():
    with pytest.raises(ValueError):
        smooth([1], 0)
    with pytest.raises(ValueError):
        smooth([1], 1.5)
