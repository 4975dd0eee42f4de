import pytest
from duration_parse import parse_clock, parse_units


def test_each_unit():
    assert parse_units("1s") == 1
    assert parse_units("1m") == 60
    assert parse_units("1h") == 3600
    assert parse_units("1d") == 86400


def test_sums():
    assert parse_units("1h30m") == 5400
    assert parse_units("2d4h1m5s") == 187265


def test_numbers_of_two_digits():
    assert parse_units("90s") == 90
    assert parse_units("12m 10s") == 730


def test_spaces_and_case():
    assert parse_units(" 1H 1M ") == 3660
    assert parse_units("3D") == 259200


def test_units_errors():
    for text in ("", " ", "5", "1h5", "h", "1x", "1 h", "1-2s"):
        with pytest.raises(ValueError):
            parse_units(text)


def test_units_messages():
    with pytest.raises(ValueError, match="unexpected 'h'"):
        parse_units("h")
    with pytest.raises(ValueError, match="unexpected ' '"):
        parse_units("1 h")
    with pytest.raises(ValueError, match="without a unit"):
        parse_units("5")


def test_clock_two_parts():
    assert parse_clock("1:05") == 65
    assert parse_clock("0:00") == 0
    assert parse_clock("75:59") == 4559


def test_clock_three_parts():
    assert parse_clock("2:00:30") == 7230
    assert parse_clock("01:10:09") == 4209


def test_clock_wrong_count():
    for text in ("5", "1:02:03:04"):
        with pytest.raises(ValueError, match="expected"):
            parse_clock(text)


def test_clock_bad_part():
    for text in ("1:60", "1:5", "1:005", "1:99:00"):
        with pytest.raises(ValueError, match="bad part [^:]*$"):
            parse_clock(text)
