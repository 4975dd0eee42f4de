import pytest
from digits_sum import digital_root, digits_sum, is_harshad


def test_sum_decimal():
    assert digits_sum(123) == 6
    assert digits_sum(9) == 9
    assert digits_sum(1) == 1
    assert digits_sum(90807) == 24


def test_sum_zero_and_negative():
    assert digits_sum(0) == 0
    assert digits_sum(-45) == 9


def test_sum_other_base():
    assert digits_sum(7, 2) == 3
    assert digits_sum(8, 2) == 1
    assert digits_sum(255, 16) == 30


def test_sum_bad_base():
    with pytest.raises(ValueError):
        digits_sum(5, 1)


def test_root():
    assert digital_root(38) == (2, 2)
    assert digital_root(493193) == (2, 3)
    assert digital_root(12) == (3, 1)


def test_root_of_digit():
    assert digital_root(9) == (9, 0)
    assert digital_root(0) == (0, 0)
    assert digital_root(10) == (1, 1)


def test_root_of_negative():
    assert digital_root(-99) == (9, 2)
    assert digital_root(-5) == (5, 0)


def test_harshad():
    assert is_harshad(18) is True
    assert is_harshad(1) is True
    assert is_harshad(19) is False
    assert is_harshad(201) is True


def test_harshad_not_positive():
    assert is_harshad(0) is False
    assert is_harshad(-18) is False
