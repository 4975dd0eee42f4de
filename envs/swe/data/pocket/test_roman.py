import pytest
from roman import from_roman, to_roman


def test_small_numbers():
    assert to_roman(1) == "I"
    assert to_roman(3) == "III"
    assert to_roman(4) == "IV"
    assert to_roman(8) == "VIII"


def test_tens_and_hundreds():
    assert to_roman(49) == "XLIX"
    assert to_roman(90) == "XC"
    assert to_roman(555) == "DLV"
    assert to_roman(944) == "CMXLIV"


def test_years():
    assert to_roman(1987) == "MCMLXXXVII"
    assert to_roman(2024) == "MMXXIV"
    assert to_roman(1400) == "MCD"


def test_bounds():
    assert to_roman(3999) == "MMMCMXCIX"
    with pytest.raises(ValueError):
        to_roman(0)
    with pytest.raises(ValueError):
        to_roman(4000)


def test_from_simple():
    assert from_roman("VII") == 7
    assert from_roman("LX") == 60
    assert from_roman("MDC") == 1600


def test_from_subtractive():
    assert from_roman("IX") == 9
    assert from_roman("XIV") == 14
    assert from_roman("CDXLIV") == 444


def test_lower_case():
    assert from_roman("mmxxiv") == 2024


def test_bad_spelling():
    for text in ("", "IIII", "VX", "IXI", "ABC", "XIQ"):
        with pytest.raises(ValueError):
            from_roman(text)


def test_round_trip():
    for number in range(1, 400, 7):
        assert from_roman(to_roman(number)) == number
