import pytest
from roman_clock import numeral, roman_clock


def test_teens():
    teens = [numeral(number) for number in range(13, 17)]
    assert teens == ["XIII", "XIV", "XV", "XVI"]


def test_tens():
    assert numeral(20) == "XX"
    assert numeral(38) == "XXXVIII"
    assert numeral(41) == "XLI"
    assert numeral(54) == "LIV"


def test_all_different():
    texts = [numeral(number) for number in range(60)]
    assert len(set(texts)) == 60
    assert sum(len(text) for text in texts) == 211


def test_halves():
    assert roman_clock(6, 47) == "VI:XLVII AM"
    assert roman_clock(18, 47) == "VI:XLVII PM"
    assert roman_clock(0, 51) == "XII:LI AM"
    assert roman_clock(12, 2) == "XII:II PM"


def test_full_day():
    assert roman_clock(23, 59, False) == "XXIII:LIX"
    assert roman_clock(12, 0, False) == "XII:N"
    assert roman_clock(4, 10, False) == "IV:X"


def test_times_refused():
    for hour, minute in ((25, 0), (-2, 5), (24, 30)):
        with pytest.raises(ValueError, match="hour must"):
            roman_clock(hour, minute, False)
    with pytest.raises(ValueError, match="minute must"):
        roman_clock(23, 61)
