import pytest
from leap_year import is_leap, leaps_between, month_length


def test_common_years():
    assert is_leap(2023) is False
    assert is_leap(2022) is False


def test_leap_years():
    assert is_leap(2024) is True
    assert is_leap(1996) is True


def test_centuries():
    assert is_leap(1900) is False
    assert is_leap(2100) is False
    assert is_leap(2000) is True
    assert is_leap(1600) is True


def test_month_lengths():
    days = [month_length(2023, month) for month in range(1, 13)]
    assert days == [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]


def test_february():
    assert month_length(2024, 2) == 29
    assert month_length(1900, 2) == 28
    assert month_length(2024, 1) == 31
    assert month_length(2024, 3) == 31


def test_bad_month():
    with pytest.raises(ValueError):
        month_length(2024, 0)
    with pytest.raises(ValueError):
        month_length(2024, 13)


def test_between():
    assert leaps_between(2001, 2010) == 2
    assert leaps_between(1895, 1905) == 2
    assert leaps_between(1999, 2001) == 1


def test_between_ends_count():
    assert leaps_between(2004, 2008) == 2
    assert leaps_between(2005, 2007) == 0
    assert leaps_between(2000, 2000) == 1
    assert leaps_between(1900, 1900) == 0


def test_between_backwards():
    assert leaps_between(2010, 2001) == 0


def test_between_long():
    assert leaps_between(1601, 2000) == 97
    assert leaps_between(1, 400) == 97
    assert leaps_between(1, 399) == 96
    assert leaps_between(1, 99) == 24
