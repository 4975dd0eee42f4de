import pytest
from primes_sieve import prime_factors, primes_up_to


def test_small_limit():
    assert primes_up_to(10) == [2, 3, 5, 7]
    assert primes_up_to(2) == [2]
    assert primes_up_to(3) == [2, 3]


def test_limit_is_included():
    assert primes_up_to(13) == [2, 3, 5, 7, 11, 13]
    assert primes_up_to(14) == [2, 3, 5, 7, 11, 13]
    assert primes_up_to(9)[-1] == 7


def test_no_primes():
    assert primes_up_to(1) == []
    assert primes_up_to(0) == []
    assert primes_up_to(-7) == []


def test_count_to_hundred():
    primes = primes_up_to(100)
    assert len(primes) == 25
    assert primes[-1] == 97
    assert sum(primes) == 1060


def test_factors():
    assert prime_factors(12) == [2, 2, 3]
    assert prime_factors(35) == [5, 7]
    assert prime_factors(90) == [2, 3, 3, 5]


def test_factors_of_prime():
    assert prime_factors(2) == [2]
    assert prime_factors(13) == [13]


def test_factors_of_powers():
    assert prime_factors(64) == [2] * 6
    assert prime_factors(49) == [7, 7]
    assert prime_factors(4) == [2, 2]


def test_factors_of_one():
    assert prime_factors(1) == []


def test_factors_not_positive():
    with pytest.raises(ValueError):
        prime_factors(0)
    with pytest.raises(ValueError):
        prime_factors(-6)
