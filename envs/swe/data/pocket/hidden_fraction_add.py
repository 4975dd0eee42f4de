from fractions import Fraction

import pytest
from fraction_add import add, mixed, reduced


def test_lowest_terms():
    assert reduced(100, 75) == (4, 3)
    assert reduced(17, 51) == (1, 3)
    assert reduced(0, -3) == (0, 1)


def test_sign_moves_up():
    assert reduced(9, -12) == (-3, 4)
    assert reduced(-9, -12) == (3, 4)
    assert reduced(1, -1) == (-1, 1)


def test_bottom_zero():
    with pytest.raises(ZeroDivisionError, match="zero"):
        reduced(0, 0)
    with pytest.raises(ZeroDivisionError, match="zero"):
        add((1, 0), (1, 2))


def test_against_fractions():
    pairs = ((1, 2), (-3, 4), (5, 6), (7, -9), (0, 5), (4, 1))
    for first in pairs:
        for second in pairs:
            total = Fraction(*first) + Fraction(*second)
            assert add(first, second) == total.as_integer_ratio()


def test_chain_of_sums():
    total = (0, 1)
    for bottom in (2, 6, 12, 20):
        total = add(total, (1, bottom))
    assert total == (4, 5)


def test_text():
    assert mixed((22, 7)) == "3 1/7"
    assert mixed((-22, 7)) == "-3 1/7"
    assert mixed((6, 9)) == "2/3"
    assert mixed((5, 5)) == "1"


def test_text_signs():
    assert mixed((-5, -10)) == "1/2"
    assert mixed((-1, 9)) == "-1/9"
    assert mixed((-12, 6)) == "-2"
