import pytest
from run_length import decode, encode


def test_encode_runs():
    assert encode("aaab") == "3ab"
    assert encode("aabbb") == "2a3b"


def test_encode_singles():
    assert encode("abc") == "abc"
    assert encode("x") == "x"
    assert encode("xx") == "2x"


def test_encode_empty():
    assert encode("") == ""


def test_encode_long_run():
    assert encode("a" * 12 + "b") == "12ab"


def test_encode_digits_refused():
    with pytest.raises(ValueError):
        encode("ab1")
    with pytest.raises(ValueError):
        encode("7")


def test_decode_runs():
    assert decode("3ab") == "aaab"
    assert decode("2a3b") == "aabbb"
    assert decode("12xy") == "x" * 12 + "y"


def test_decode_singles():
    assert decode("abc") == "abc"
    assert decode("") == ""


def test_decode_three_digits():
    assert decode("105z") == "z" * 105


def test_decode_open_count():
    with pytest.raises(ValueError):
        decode("a3")
    with pytest.raises(ValueError):
        decode("1")


def test_round_trip():
    text = "wwww  hhy  so   looong"
    assert decode(encode(text)) == text
