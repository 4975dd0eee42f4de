import pytest
from duration_parse import parse_clock, parse_units


def test_any_order():
    assert parse_units("5s 1m") == 65
    assert parse_units("10m2h") == 7800


def test_same_unit_twice():
    assert parse_units("1h 1h 30s") == 7230
    assert parse_units("0s") == 0


def test_many_digits():
    assert parse_units("1000s") == 1000
    assert parse_units("100d") == 8640000


def test_unit_text_refused():
    for text in ("   ", "1h 20", "m5", "1hh", "2w", "1.5h", "1 0s"):
        with pytest.raises(ValueError):
            parse_units(text)


def test_clock_values():
    assert parse_clock("0:59") == 59
    assert parse_clock("10:00") == 600
    assert parse_clock("100:00:01") == 360001
    assert parse_clock("0:59:59") == 3599


def test_clock_refused():
    for text in ("", "12", "1:2:3", "0:61", "0:00:60", "1:aa", "1::00"):
        with pytest.raises(ValueError):
            parse_clock(text)


def test_both_agree():
    assert parse_units("3h 25m 45s") == parse_clock("3:25:45")
