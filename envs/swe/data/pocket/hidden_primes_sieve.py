import pytest
from primes_sieve import prime_factors, primes_up_to


def test_list_to_thirty():
    assert primes_up_to(30) == [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]
    assert primes_up_to(4) == [2, 3]


def test_squares_are_out():
    primes = primes_up_to(130)
    for square in (4, 9, 25, 49, 121):
        assert square not in primes
    assert primes[-1] == 127


def test_empty_lists():
    assert primes_up_to(-1) == []
    assert primes_up_to(1) == []


def test_counts():
    assert len(primes_up_to(200)) == 46
    assert len(primes_up_to(199)) == 46
    assert len(primes_up_to(198)) == 45


def test_product_of_factors():
    for number in range(1, 80):
        product = 1
        for factor in prime_factors(number):
            product *= factor
        assert product == number


def test_factor_lists():
    assert prime_factors(97) == [97]
    assert prime_factors(210) == [2, 3, 5, 7]
    assert prime_factors(128) == [2] * 7
    assert prime_factors(243) == [3] * 5


def test_negative_is_refused():
    with pytest.raises(ValueError):
        prime_factors(-1)
