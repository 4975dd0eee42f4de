import pytest
from days_between import day_number, days_between, parse


def test_first_days():
    assert day_number(1, 1, 1) == 1
    assert day_number(1, 2, 1) == 32
    assert day_number(1, 12, 31) == 365
    assert day_number(2, 1, 1) == 366


def test_known_day_numbers():
    assert day_number(1970, 1, 1) == 719163
    assert day_number(2000, 3, 1) == 730180
    assert day_number(9999, 12, 31) == 3652059
    assert day_number(401, 1, 1) == 146098


def test_every_month_start():
    starts = [day_number(1, month, 1) for month in range(1, 13)]
    assert starts == [1, 32, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335]


def test_parse():
    assert parse("2024-02-29") == (2024, 2, 29)
    assert parse("1-1-1") == (1, 1, 1)
    assert parse("1999-12-31") == (1999, 12, 31)


def test_parse_not_a_date():
    with pytest.raises(ValueError, match="not a date"):
        parse("2024-02")
    with pytest.raises(ValueError, match="not a date"):
        parse("2024-02-03-04")


def test_parse_no_such_date():
    for text in ("2024-0-1", "2024-13-1", "2024-1-0", "2024-1-32"):
        with pytest.raises(ValueError, match="no such date: 2024"):
            parse(text)


def test_between_same_month():
    assert days_between("2024-05-03", "2024-05-10") == 7
    assert days_between("2024-05-10", "2024-05-03") == -7
    assert days_between("2024-05-10", "2024-05-10") == 0


def test_between_over_february():
    assert days_between("2024-02-28", "2024-03-01") == 2
    assert days_between("2023-02-28", "2023-03-01") == 1
    assert days_between("1900-02-28", "1900-03-01") == 1
    assert days_between("2000-02-28", "2000-03-01") == 2


def test_between_years():
    assert days_between("2023-12-31", "2024-01-01") == 1
    assert days_between("2024-01-01", "2025-01-01") == 366
    assert days_between("1900-01-01", "2000-01-01") == 36524
