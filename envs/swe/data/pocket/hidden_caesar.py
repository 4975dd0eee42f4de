import pytest
from caesar import decode, encode, find_key


def test_whole_alphabet():
    assert encode("abcdefghijklmnopqrstuvwxyz", 13) == (
        "nopqrstuvwxyzabcdefghijklm"
    )


def test_mixed_sentence():
    assert encode("Attack at 05:30, Zoe!", 7) == "Haahjr ha 05:30, Gvl!"
    assert decode("Haahjr ha 05:30, Gvl!", 7) == "Attack at 05:30, Zoe!"


def test_negative_and_zero():
    assert encode("Dog", -3) == "Ald"
    assert decode("Ald", -3) == "Dog"
    assert encode("Same", 0) == "Same"


def test_keys_modulo():
    assert encode("qrs", 30) == encode("qrs", 4) == "uvw"
    assert encode("qrs", -22) == "uvw"


def test_key_search():
    assert find_key(encode("secret note", 17), "note") == 17
    assert find_key("aaa", "b") == 25
    assert find_key("aaa", "z") == 1


def test_key_search_case_matters():
    with pytest.raises(ValueError):
        find_key("abc", "A")
    with pytest.raises(ValueError):
        find_key("", "a")
