import pytest
from histogram import bars, bin_counts


def test_no_values():
    assert bin_counts([], 0, 1, 3) == [0, 0, 0]


def test_fractional_width():
    assert bin_counts([0.5, 1.5, 2.4, 2.5], 0, 5, 4) == [1, 2, 1, 0]
    assert bin_counts([0, 0.25, 0.5, 1], 0, 1, 4) == [1, 1, 1, 1]


def test_both_ends_count():
    assert bin_counts([-2, 2], -2, 2, 2) == [1, 1]
    assert bin_counts([-2.1, 2.1], -2, 2, 2) == [0, 0]


def test_many_values():
    assert bin_counts(range(101), 0, 100, 4) == [25, 25, 25, 26]


def test_range_refused():
    with pytest.raises(ValueError):
        bin_counts([], 3, 1, 2)
    with pytest.raises(ValueError):
        bin_counts([], 1, 3, -1)
    with pytest.raises(ValueError):
        bin_counts([], 2, 2, 2)


def test_bar_lengths():
    sizes = [len(bar) for bar in bars([8, 0, 1, 6, 20])]
    assert sizes == [4, 0, 1, 3, 10]


def test_equal_bars():
    assert bars([7, 7], 3) == ["###", "###"]
    assert bars([1, 0], 1) == ["#", ""]
