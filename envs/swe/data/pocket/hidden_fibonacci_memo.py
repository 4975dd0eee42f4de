import pytest
from fibonacci_memo import fibonacci, zeckendorf


def test_each_is_sum_of_two():
    for index in range(2, 20):
        assert fibonacci(index) == fibonacci(index - 1) + fibonacci(index - 2)
    assert fibonacci(21) == 10946


def test_start():
    assert fibonacci(0) == 0
    assert fibonacci(1) == 1
    assert fibonacci(2) == 1


def test_below_zero():
    for index in (-1, -2, -10):
        with pytest.raises(ValueError):
            fibonacci(index)


def test_memo_contents():
    memo = {}
    fibonacci(9, memo)
    assert len(memo) == 8
    assert memo[9] == 34
    assert 1 not in memo


def test_memo_values_win():
    assert fibonacci(7, {5: 1, 6: 2}) == 3
    assert fibonacci(7, {6: 40}) == 45


def test_parts_add_up():
    for number in range(1, 120):
        parts = zeckendorf(number)
        assert sum(parts) == number
        assert parts == sorted(set(parts), reverse=True)


def test_parts_known():
    assert zeckendorf(7) == [5, 2]
    assert zeckendorf(13) == [13]
    assert zeckendorf(1000) == [987, 13]
    assert zeckendorf(5) == [5]
