import pytest
from fibonacci_memo import fibonacci, zeckendorf


def test_first_numbers():
    first = [fibonacci(index) for index in range(8)]
    assert first == [0, 1, 1, 2, 3, 5, 8, 13]


def test_larger():
    assert fibonacci(20) == 6765
    assert fibonacci(22) == 17711


def test_negative_index():
    with pytest.raises(ValueError):
        fibonacci(-1)


def test_memo_is_filled():
    memo = {}
    assert fibonacci(5, memo) == 5
    assert memo == {2: 1, 3: 2, 4: 3, 5: 5}


def test_memo_is_used():
    assert fibonacci(4, {4: 100}) == 100
    assert fibonacci(5, {3: 10, 4: 20}) == 30
    assert fibonacci(1, {1: 50}) == 1


def test_no_shared_memo():
    assert fibonacci(6, {6: 0}) == 0
    assert fibonacci(6) == 8


def test_zeckendorf_small():
    assert zeckendorf(1) == [1]
    assert zeckendorf(2) == [2]
    assert zeckendorf(3) == [3]
    assert zeckendorf(4) == [3, 1]


def test_zeckendorf_larger():
    assert zeckendorf(100) == [89, 8, 3]
    assert zeckendorf(64) == [55, 8, 1]


def test_zeckendorf_of_fibonacci():
    assert zeckendorf(144) == [144]
    assert zeckendorf(143) == [89, 34, 13, 5, 2]
    assert zeckendorf(8) == [8]


def test_zeckendorf_zero():
    assert zeckendorf(0) == []
