from math import gcd as true_gcd

from gcd_lcm import coprime_below, gcd, lcm


def test_gcd_table():
    for first in range(-6, 13):
        for second in range(-6, 13):
            assert gcd(first, second) == true_gcd(first, second)


def test_gcd_large():
    assert gcd(1071, 462) == 21
    assert gcd(2**20, 6**10) == 1024


def test_lcm_values():
    assert lcm(21, 6) == 42
    assert lcm(-3, -5) == 15
    assert lcm(12, 12) == 12


def test_lcm_with_zero():
    assert lcm(0, -8) == 0
    assert lcm(-8, 0) == 0


def test_lcm_of_range():
    assert lcm(*range(1, 11)) == 2520
    assert lcm(-6, 10) == 30
    assert lcm(7, 7, 7) == 7


def test_coprime_counts():
    assert coprime_below(12) == [1, 5, 7, 11]
    assert len(coprime_below(36)) == 12
    assert coprime_below(0) == []
