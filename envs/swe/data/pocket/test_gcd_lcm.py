from gcd_lcm import coprime_below, gcd, lcm


def test_gcd():
    assert gcd(12, 18) == 6
    assert gcd(18, 12) == 6
    assert gcd(7, 13) == 1
    assert gcd(5, 25) == 5


def test_gcd_zero():
    assert gcd(0, 9) == 9
    assert gcd(9, 0) == 9
    assert gcd(0, 0) == 0


def test_gcd_negative():
    assert gcd(-12, 18) == 6
    assert gcd(12, -18) == 6
    assert gcd(-4, 0) == 4


def test_lcm():
    assert lcm(4, 6) == 12
    assert lcm(5, 7) == 35
    assert lcm(1, 9) == 9
    assert lcm(2**60 + 2, 2) == 2**60 + 2


def test_lcm_zero():
    assert lcm(0, 5) == 0
    assert lcm(5, 0) == 0
    assert lcm(0, 0) == 0


def test_lcm_negative():
    assert lcm(-4, 6) == 12
    assert lcm(4, -6) == 12


def test_lcm_of_several():
    assert lcm(2, 3, 4, 5) == 60
    assert lcm(8) == 8
    assert lcm() == 1
    assert lcm(3, 0, 2) == 0


def test_coprime():
    assert coprime_below(10) == [1, 3, 7, 9]
    assert coprime_below(7) == [1, 2, 3, 4, 5, 6]
    assert coprime_below(2) == [1]
    assert coprime_below(1) == []
