import pytest
from histogram import bars, bin_counts


def test_counts():
    assert bin_counts([1, 2, 3, 7], 0, 10, 2) == [3, 1]
    assert bin_counts([1, 4, 5, 8], 0, 9, 3) == [1, 2, 1]
    assert bin_counts([2.2, 9], 0, 10, 4) == [1, 0, 0, 1]


def test_value_on_bin_edge():
    assert bin_counts([5], 0, 10, 2) == [0, 1]
    assert bin_counts([0], 0, 10, 2) == [1, 0]


def test_high_goes_to_last_bin():
    assert bin_counts([10], 0, 10, 2) == [0, 1]
    assert bin_counts([3, 4], 0, 4, 4) == [0, 0, 0, 2]


def test_outside_is_skipped():
    assert bin_counts([-1, 11, 3], 0, 10, 2) == [1, 0]
    assert bin_counts([9, 1, 3], 2, 6, 2) == [1, 0]


def test_shifted_range():
    assert bin_counts([-4, -1, 1, 3], -4, 4, 4) == [1, 1, 1, 1]
    assert bin_counts([12, 19], 10, 20, 5) == [0, 1, 0, 0, 1]


def test_bad_arguments():
    with pytest.raises(ValueError):
        bin_counts([1], 0, 10, 0)
    with pytest.raises(ValueError):
        bin_counts([1], 5, 5, 1)
    assert bin_counts([1], 0, 10, 1) == [1]


def test_bars():
    assert bars([1, 2, 4], 4) == ["#", "##", "####"]
    assert bars([10, 5]) == ["#" * 10, "#" * 5]


def test_bars_zero_and_tiny():
    assert bars([0, 100, 1], 5) == ["", "#####", "#"]
    assert bars([0, 0]) == ["", ""]
    assert bars([]) == []


def test_bars_round_down():
    assert bars([3, 2, 1], 7) == ["#######", "####", "##"]
