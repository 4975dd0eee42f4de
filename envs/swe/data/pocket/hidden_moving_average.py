import pytest
from moving_average import moving_average, smooth


def test_long_list():
    values = [10, 20, 30, 40, 50, 60]
    assert moving_average(values, 4) == [25, 35, 45]
    assert moving_average(values, 5) == [30, 40]
    assert moving_average(values, 6) == [35]


def test_negative_values():
    assert moving_average([-2, 2, -6, 0], 2) == [0, -2, -3]


def test_window_exceeds():
    assert moving_average([7], 2) == []
    assert moving_average([7], 1) == [7]


def test_input_is_not_changed():
    values = [1, 2, 3]
    moving_average(values, 2)
    smooth(values, 0.5)
    assert values == [1, 2, 3]


def test_refused_arguments():
    with pytest.raises(ValueError):
        moving_average([], 0)
    with pytest.raises(ValueError):
        smooth([], -0.5)
    with pytest.raises(ValueError):
        smooth([1, 2], 1.01)


def test_smooth_sequence():
    assert smooth([16, 0, 0, 0], 0.5) == [16, 8, 4, 2]
    assert smooth([0, 8, 8], 0.75) == [0, 6, 7.5]


def test_smooth_constant():
    assert smooth([3, 3, 3], 0.125) == [3, 3, 3]
