import pytest
from roman import from_roman, to_roman


def test_every_sign_pair():
    assert to_roman(9) == "IX"
    assert to_roman(40) == "XL"
    assert to_roman(400) == "CD"
    assert to_roman(900) == "CM"


def test_repeated_signs():
    assert to_roman(2) == "II"
    assert to_roman(36) == "XXXVI"
    assert to_roman(3888) == "MMMDCCCLXXXVIII"


def test_reading_long_ones():
    assert from_roman("MMMDCCCLXXXVIII") == 3888
    assert from_roman("MCMXCIV") == 1994
    assert from_roman("cmxcix") == 999


def test_number_outside():
    for number in (-1, 4001, 10000):
        with pytest.raises(ValueError):
            to_roman(number)


def test_irregular_spellings():
    for text in ("IM", "XXXX", "LL", "VIV", "I I", "MMMM", "zz"):
        with pytest.raises(ValueError):
            from_roman(text)


def test_back_and_forth_large():
    for number in (500, 1066, 1492, 2999, 3999):
        assert from_roman(to_roman(number)) == number
