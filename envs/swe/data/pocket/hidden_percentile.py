import pytest
from percentile import outliers, percentile, summary


def test_hundred_values():
    values = list(range(101))
    assert percentile(values, 37) == pytest.approx(37)
    assert percentile(values, 99) == pytest.approx(99)


def test_between_two():
    assert percentile([20, 10], 10) == 11
    assert percentile([20, 10], 80) == 18
    assert percentile([1, 2, 10], 75) == 6


def test_equal_values():
    assert percentile([3, 3, 3], 66) == 3
    assert summary([3, 3]) == (3, 3, 3, 3, 3)


def test_errors():
    with pytest.raises(ValueError):
        percentile([], 0)
    with pytest.raises(ValueError):
        percentile([1], 100.5)
    with pytest.raises(ValueError):
        percentile([1], -0.5)


def test_input_keeps_order():
    values = [9, 1, 5]
    assert summary(values) == (1, 3, 5, 7, 9)
    assert values == [9, 1, 5]


def test_negative_values():
    assert summary([-8, -6, -4, -2, 0]) == (-8, -6, -4, -2, 0)


def test_far_values():
    assert outliers([30, 1, 2, 3, 2, -30, 1]) == [30, -30]
    assert outliers([0, 10, 20, 30, 61]) == [61]
    assert outliers([0, 10, 20, 30, 60]) == []
    assert outliers([0, 10, 20, 30, 60], 3) == []
