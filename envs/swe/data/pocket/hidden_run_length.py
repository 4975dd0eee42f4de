import pytest
from run_length import decode, encode


def test_run_at_both_ends():
    assert encode("ppqrrrr") == "2pq4r"
    assert encode("pqqq") == "p3q"


def test_letter_comes_back():
    assert encode("aabaa") == "2ab2a"
    assert decode("2ab2a") == "aabaa"


def test_blanks_and_signs():
    assert encode("  --!") == "2 2-!"
    assert decode("2 2-!") == "  --!"


def test_two_digit_counts():
    assert encode("k" * 20 + "m" * 11) == "20k11m"
    assert decode("20k11m") == "k" * 20 + "m" * 11


def test_digits_anywhere():
    for text in ("1ab", "a22b", "ab9"):
        with pytest.raises(ValueError):
            encode(text)


def test_open_counts():
    for packed in ("12", "2a10", "b4"):
        with pytest.raises(ValueError):
            decode(packed)


def test_case_is_kept():
    assert encode("aAA") == "a2A"
    assert decode("1a2A") == "aAA"
