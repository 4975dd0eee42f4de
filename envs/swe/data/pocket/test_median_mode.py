import pytest
from median_mode import median, modes, spread


def test_median_odd():
    assert median([3, 1, 2]) == 2
    assert median([9]) == 9
    assert median([5, 1, 4, 2, 8]) == 4


def test_median_even():
    assert median([4, 1]) == 2.5
    assert median([10, 2, 8, 4]) == 6


def test_median_keeps_input():
    values = [3, 1, 2]
    median(values)
    assert values == [3, 1, 2]


def test_median_empty():
    with pytest.raises(ValueError):
        median([])


def test_single_mode():
    assert modes([1, 2, 2, 3]) == [2]
    assert modes("banana") == ["a"]


def test_several_modes():
    assert modes([3, 1, 3, 1, 2]) == [3, 1]
    assert modes([5, 4]) == [5, 4]


def test_no_mode():
    assert modes([]) == []


def test_spread():
    assert spread([1, 1, 2, 2, 4, 6, 9]) == 1
    assert spread([2, 4, 9]) == 2
    assert spread([5]) == 0


def test_spread_even():
    assert spread([1, 3, 7, 9]) == 3
