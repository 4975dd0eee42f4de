import pytest
from base_convert import from_base, to_base


def test_same_as_builtin_formats():
    for number in (0, 1, 2, 63, 64, 1000):
        assert to_base(number, 2) == format(number, "b")
        assert to_base(number, 8) == format(number, "o")
        assert to_base(number, 16) == format(number, "x")


def test_decimal():
    assert to_base(90210, 10) == "90210"
    assert to_base(-7, 10) == "-7"
    assert to_base(-1, 2) == "-1"


def test_same_as_int():
    for text, base in (("zz", 36), ("-1f", 16), ("2101", 3)):
        assert from_base(text, base) == int(text, base)


def test_digit_just_too_large():
    with pytest.raises(ValueError):
        from_base("18", 8)
    with pytest.raises(ValueError):
        from_base("g", 16)
    assert from_base("17", 8) == 15


def test_base_limits():
    with pytest.raises(ValueError):
        to_base(10, 0)
    with pytest.raises(ValueError):
        to_base(10, 100)
    assert to_base(71, 36) == "1z"


def test_odd_text():
    for text in ("--1", " 1", "1_0"):
        with pytest.raises(ValueError):
            from_base(text, 10)
