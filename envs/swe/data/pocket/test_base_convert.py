import pytest
from base_convert import from_base, to_base


def test_binary():
    assert to_base(5, 2) == "101"
    assert to_base(8, 2) == "1000"
    assert to_base(1, 2) == "1"


def test_hexadecimal():
    assert to_base(255, 16) == "ff"
    assert to_base(256, 16) == "100"


def test_largest_base():
    assert to_base(35, 36) == "z"
    assert to_base(36 * 36 + 10, 36) == "10a"


def test_zero_and_negative():
    assert to_base(0, 7) == "0"
    assert to_base(-1, 2) == "-1"
    assert to_base(-10, 3) == "-101"


def test_bad_base():
    with pytest.raises(ValueError):
        to_base(3, 1)
    with pytest.raises(ValueError):
        to_base(3, 37)


def test_read():
    assert from_base("101", 2) == 5
    assert from_base("777", 8) == 511
    assert from_base("0", 2) == 0


def test_read_letters():
    assert from_base("ff", 16) == 255
    assert from_base("FF", 16) == 255
    assert from_base("z1", 36) == 1261


def test_read_negative():
    assert from_base("-12", 5) == -7


def test_read_errors():
    for text in ("", "-", "2", "1.0", "1-"):
        with pytest.raises(ValueError):
            from_base(text, 2)


def test_round_trip():
    for base in (2, 3, 10, 36):
        assert from_base(to_base(98765, base), base) == 98765
