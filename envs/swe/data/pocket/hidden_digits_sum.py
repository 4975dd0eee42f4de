import pytest
from digits_sum import digital_root, digits_sum, is_harshad


def test_sums():
    assert digits_sum(1000000) == 1
    assert digits_sum(99999) == 45
    assert digits_sum(-2048) == 14


def test_bases():
    assert digits_sum(26, 3) == 6
    assert digits_sum(1023, 2) == 10
    assert digits_sum(35, 36) == 35
    assert digits_sum(-36, 36) == 1


def test_base_refused():
    for base in (0, -2, 1):
        with pytest.raises(ValueError):
            digits_sum(10, base)


def test_roots():
    assert digital_root(65536) == (7, 2)
    assert digital_root(19) == (1, 2)
    assert digital_root(11) == (2, 1)
    assert digital_root(199) == (1, 3)


def test_root_is_remainder():
    for number in range(1, 60):
        assert digital_root(number)[0] == (number - 1) % 9 + 1


def test_harshad_list():
    found = [n for n in range(-2, 31) if is_harshad(n)]
    assert found == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 18, 20, 21, 24, 27, 30]
