from datetime import date

import pytest
from days_between import day_number, days_between, parse


def test_like_datetime():
    for year in (4, 99, 100, 101, 400, 401, 1582, 1999, 2000, 2023, 2024):
        for month in range(1, 13):
            number = date(year, month, 17).toordinal()
            assert day_number(year, month, 17) == number


def test_end_of_february():
    assert day_number(2024, 2, 29) == day_number(2024, 3, 1) - 1
    assert day_number(2100, 2, 28) == day_number(2100, 3, 1) - 1


def test_parse_leading_zeros():
    assert parse("0987-06-05") == (987, 6, 5)
    assert parse("2010-10-31") == (2010, 10, 31)


def test_parse_errors():
    for text in ("", "2024", "2024/01/02", "2024--02", "a-b-c"):
        with pytest.raises(ValueError):
            parse(text)


def test_parse_out_of_range():
    with pytest.raises(ValueError, match="no such date: 2023-00-10"):
        parse("2023-00-10")
    with pytest.raises(ValueError, match="no such date: 2023-10-40"):
        parse("2023-10-40")


def test_distances():
    assert days_between("1969-07-20", "1972-12-19") == 1248
    assert days_between("2000-01-01", "2001-01-01") == 366
    assert days_between("2026-03-01", "2025-03-01") == -365
    assert days_between("1600-01-01", "2000-01-01") == 146097
