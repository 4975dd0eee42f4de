import pytest
from caesar import decode, encode, find_key


def test_encode_letters():
    assert encode("abc", 1) == "bcd"
    assert encode("hello", 3) == "khoor"


def test_encode_wraps():
    assert encode("xyz", 3) == "abc"
    assert encode("z", 1) == "a"
    assert encode("a", -1) == "z"


def test_encode_case():
    assert encode("Hello World", 5) == "Mjqqt Btwqi"
    assert encode("AZ", 1) == "BA"


def test_other_characters_stay():
    assert encode("a-1, b!", 2) == "c-1, d!"
    assert encode("\u00e9\u00c9", 4) == "\u00e9\u00c9"
    assert encode("", 7) == ""


def test_large_keys():
    assert encode("abc", 26) == "abc"
    assert encode("abc", 53) == "bcd"


def test_decode():
    assert decode("khoor", 3) == "hello"
    assert decode("Bcd", 1) == "Abc"


def test_round_trip():
    text = "The quick brown fox jumps over the lazy dog"
    assert decode(encode(text, 11), 11) == text
    assert encode(text, 13) == decode(text, 13)


def test_find_key():
    assert find_key("khoor zruog", "world") == 3
    assert find_key("plain", "plain") == 0
    assert find_key("gdkkn", "hello") == 25


def test_find_key_fails():
    with pytest.raises(ValueError):
        find_key("abc", "zzz")
