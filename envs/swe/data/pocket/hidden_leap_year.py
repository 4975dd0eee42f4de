import pytest
from leap_year import is_leap, leaps_between, month_length


def test_leap_list():
    found = [year for year in range(1888, 1921) if is_leap(year)]
    assert found == [1888, 1892, 1896, 1904, 1908, 1912, 1916, 1920]


def test_four_hundreds():
    found = [year for year in range(800, 2500, 100) if is_leap(year)]
    assert found == [800, 1200, 1600, 2000, 2400]


def test_year_sums():
    for year, total in ((2019, 365), (2020, 366), (1800, 365), (2400, 366)):
        lengths = [month_length(year, month) for month in range(1, 13)]
        assert sum(lengths) == total


def test_single_months():
    assert month_length(2020, 2) == 29
    assert month_length(2021, 12) == 31
    assert month_length(2021, 11) == 30
    assert month_length(2021, 7) == 31


def test_months_outside():
    for month in (-1, 0, 13, 14):
        with pytest.raises(ValueError):
            month_length(2021, month)


def test_between_against_counting():
    for first in (1796, 1799, 1803, 1899, 1996, 2001):
        for last in (1804, 1900, 2000, 2020):
            years = range(first, last + 1)
            assert leaps_between(first, last) == sum(map(is_leap, years))
