from polynomial import derivative, evaluate, multiply


def test_value_of_cube():
    assert evaluate([0, 0, 0, 1], 4) == 64
    assert evaluate([-1, 2, -3, 4], 2) == 23
    assert evaluate([-1, 2, -3, 4], -1) == -10


def test_value_fraction():
    assert evaluate([1, 1, 4], 0.5) == 2.5


def test_value_of_sum_of_coefficients():
    assert evaluate([6, 5, 4, 3], 1) == 18
    assert evaluate([6, 5, 4, 3], 0) == 6


def test_product_known():
    assert multiply([-1, 1], [1, 1, 1]) == [-1, 0, 0, 1]
    assert multiply([0, 2], [0, 3]) == [0, 0, 6]
    assert multiply([2], [4]) == [8]


def test_product_commutes():
    first, second = [1, 2, 3], [7, -5]
    assert multiply(first, second) == multiply(second, first)
    assert multiply(first, second) == [7, 9, 11, -15]


def test_product_of_nothing():
    assert multiply([], []) == []
    assert multiply([], [3]) == []


def test_slope():
    assert derivative([1, 1, 1, 1, 1]) == [1, 2, 3, 4]
    assert derivative([4, -2, 0, 5]) == [-2, 0, 15]
    assert derivative([0]) == []
