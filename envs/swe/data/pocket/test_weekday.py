import pytest
from weekday import nth_weekday, weekday, weekday_name


def test_known_days():
    assert weekday(2024, 7, 1) == 0
    assert weekday(2024, 7, 7) == 6
    assert weekday(1969, 7, 20) == 6
    assert weekday(2000, 1, 1) == 5


def test_around_leap_day():
    assert weekday(2024, 2, 29) == 3
    assert weekday(2024, 3, 1) == 4
    assert weekday(2023, 2, 28) == 1
    assert weekday(2023, 3, 1) == 2


def test_centuries():
    assert weekday(1900, 3, 1) == 3
    assert weekday(1900, 2, 28) == 2
    assert weekday(2000, 2, 29) == 1
    assert weekday(400, 3, 1) == 2


def test_every_month():
    starts = [weekday(2023, month, 1) for month in range(1, 13)]
    assert starts == [6, 2, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4]


def test_names():
    assert weekday_name(2024, 7, 1) == "Monday"
    assert weekday_name(2024, 7, 3) == "Wednesday"
    assert weekday_name(2024, 7, 6) == "Saturday"
    assert weekday_name(2024, 7, 7) == "Sunday"


def test_short_names():
    assert weekday_name(2024, 7, 2, 3) == "Tue"
    assert weekday_name(2024, 7, 4, 2) == "Th"
    assert weekday_name(2024, 7, 5, size=1) == "F"


def test_nth():
    assert nth_weekday(2024, 7, 0, 1) == 1
    assert nth_weekday(2024, 7, 6, 1) == 7
    assert nth_weekday(2024, 11, 3, 4) == 28
    assert nth_weekday(2024, 5, 0, 2) == 13


def test_nth_count():
    with pytest.raises(ValueError):
        nth_weekday(2024, 7, 0, 0)
    with pytest.raises(ValueError):
        nth_weekday(2024, 7, 0, -1)
