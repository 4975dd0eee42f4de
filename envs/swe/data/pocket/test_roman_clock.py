import pytest
from roman_clock import numeral, roman_clock


def test_small_numerals():
    assert numeral(1) == "I"
    assert numeral(4) == "IV"
    assert numeral(8) == "VIII"
    assert numeral(9) == "IX"


def test_larger_numerals():
    assert numeral(10) == "X"
    assert numeral(29) == "XXIX"
    assert numeral(40) == "XL"
    assert numeral(45) == "XLV"


def test_fifties_and_zero():
    assert numeral(49) == "XLIX"
    assert numeral(50) == "L"
    assert numeral(59) == "LIX"
    assert numeral(0) == "N"


def test_morning():
    assert roman_clock(9, 30) == "IX:XXX AM"
    assert roman_clock(1, 1) == "I:I AM"
    assert roman_clock(11, 59) == "XI:LIX AM"


def test_afternoon():
    assert roman_clock(13, 5) == "I:V PM"
    assert roman_clock(23, 14) == "XI:XIV PM"


def test_noon_and_midnight():
    assert roman_clock(12, 0) == "XII:N PM"
    assert roman_clock(0, 0) == "XII:N AM"


def test_without_halves():
    assert roman_clock(21, 5, False) == "XXI:V"
    assert roman_clock(0, 44, halves=False) == "N:XLIV"


def test_bad_hour():
    with pytest.raises(ValueError, match="hour"):
        roman_clock(24, 0)
    with pytest.raises(ValueError, match="hour"):
        roman_clock(-1, 0)


def test_bad_minute():
    with pytest.raises(ValueError, match="minute"):
        roman_clock(0, 60)
    with pytest.raises(ValueError, match="minute"):
        roman_clock(0, -1)
