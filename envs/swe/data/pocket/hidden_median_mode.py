import pytest
from median_mode import median, modes, spread


def test_median_negative():
    assert median([-5, -1, -3]) == -3
    assert median([-4, 2]) == -1


def test_median_with_ties():
    assert median([7, 7, 1, 7]) == 7
    assert median([1, 1, 2, 2]) == 1.5


def test_median_longer_lists():
    assert median(list(range(101))) == 50
    assert median(list(range(100, 0, -1))) == 50.5


def test_nothing_to_take():
    with pytest.raises(ValueError):
        median(())
    with pytest.raises(ValueError):
        spread([])


def test_mode_order():
    assert modes(["b", "a", "a", "b", "c"]) == ["b", "a"]
    assert modes((1, 2, 3)) == [1, 2, 3]
    assert modes([2, 1, 1, 1, 2]) == [1]


def test_mode_once():
    assert modes([0, 0, 0]) == [0]


def test_spread_outlier():
    assert spread([1, 2, 3, 4, 100]) == 1
    assert spread([10, 10, 10, 50]) == 0
    assert spread([0, 10]) == 5
