from math import comb

import pytest
from binomial import binomial, catalan, pascal_row


def test_against_comb():
    for total in range(12):
        for chosen in range(total + 3):
            assert binomial(total, chosen) == comb(total, chosen)


def test_large():
    assert binomial(50, 6) == 15890700
    assert binomial(30, 15) == 155117520


def test_too_many_or_too_few():
    assert binomial(3, 4) == 0
    assert binomial(3, -2) == 0
    assert binomial(3, 100) == 0


def test_total_below_zero():
    with pytest.raises(ValueError):
        binomial(-5, -5)


def test_row_sums():
    for size in range(8):
        assert sum(pascal_row(size)) == 2**size
    assert pascal_row(6) == [1, 6, 15, 20, 15, 6, 1]


def test_catalan_list():
    numbers = [catalan(order) for order in range(8)]
    assert numbers == [1, 1, 2, 5, 14, 42, 132, 429]
