import pytest
from percentile import outliers, percentile, summary


def test_ends():
    assert percentile([5, 1, 9], 0) == 1
    assert percentile([5, 1, 9], 100) == 9


def test_middle():
    assert percentile([5, 1, 9], 50) == 5
    assert percentile([4, 1, 2, 3], 50) == 2.5


def test_interpolates():
    assert percentile([0, 10], 25) == 2.5
    assert percentile([10, 30, 50], 75) == 40
    assert percentile([0, 4, 8, 12, 20], 90) == pytest.approx(16.8)


def test_single_value():
    assert percentile([7], 0) == 7
    assert percentile([7], 40) == 7


def test_no_values():
    with pytest.raises(ValueError):
        percentile([], 50)


def test_rank_outside():
    with pytest.raises(ValueError):
        percentile([1, 2], -1)
    with pytest.raises(ValueError):
        percentile([1, 2], 101)


def test_summary():
    assert summary([4, 0, 8, 2, 6]) == (0, 2, 4, 6, 8)
    assert summary([1, 3]) == (1, 1.5, 2, 2.5, 3)


def test_outliers():
    assert outliers([1, 2, 3, 4, 50]) == [50]
    assert outliers([-60, 2, 3, 4, 5]) == [-60]
    assert outliers([1, 2, 3, 4, 5]) == []


def test_outliers_on_the_border():
    assert outliers([0, 4, 6, 8, 14]) == []
    assert outliers([-3, 4, 6, 8, 15]) == [-3, 15]
    assert outliers([-2.1, 4, 6, 8, 14.1]) == [-2.1, 14.1]


def test_outliers_factor():
    assert outliers([1, 4, 6, 8, 10], 0.5) == [1]
    assert outliers([1, 4, 6, 8, 12], 0) == [1, 12]
