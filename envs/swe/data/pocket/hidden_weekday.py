from datetime import date

import pytest
from weekday import nth_weekday, weekday, weekday_name


def test_same_as_datetime():
    for year in (1, 100, 399, 400, 1804, 1900, 1999, 2000, 2024, 2025):
        for month in range(1, 13):
            expected = date(year, month, 23).weekday()
            assert weekday(year, month, 23) == expected


def test_days_in_a_row():
    days = [weekday(2026, 10, day) for day in range(1, 9)]
    assert days == [3, 4, 5, 6, 0, 1, 2, 3]


def test_full_names():
    assert weekday_name(1989, 11, 9) == "Thursday"
    assert weekday_name(1815, 6, 18) == "Sunday"
    assert weekday_name(2025, 12, 26) == "Friday"
    assert weekday_name(2026, 1, 6) == "Tuesday"


def test_cut_names():
    week = [weekday_name(2024, 1, day, 3) for day in range(1, 8)]
    assert week == ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
    assert weekday_name(2024, 1, 3, 0) == ""


def test_nth_days():
    assert nth_weekday(2026, 1, 0, 3) == 19
    assert nth_weekday(2025, 2, 5, 1) == 1
    assert nth_weekday(2025, 2, 4, 1) == 7
    assert nth_weekday(2023, 10, 1, 5) == 31


def test_nth_refuses_zero():
    with pytest.raises(ValueError):
        nth_weekday(2026, 1, 6, 0)
    assert nth_weekday(2026, 1, 6, 1) == 4
