from polynomial import derivative, evaluate, multiply


def test_evaluate_line():
    assert evaluate([3, 2], 0) == 3
    assert evaluate([3, 2], 5) == 13


def test_evaluate_square():
    assert evaluate([1, 0, 2], 3) == 19
    assert evaluate([1, -4, 2], -2) == 17


def test_evaluate_short():
    assert evaluate([], 4) == 0
    assert evaluate([7], 100) == 7


def test_multiply_lines():
    assert multiply([1, 1], [1, 1]) == [1, 2, 1]
    assert multiply([2, 3], [4, 5]) == [8, 22, 15]


def test_multiply_different_lengths():
    assert multiply([1, 2], [3, 0, 4]) == [3, 6, 4, 8]
    assert multiply([5], [1, 2, 3]) == [5, 10, 15]


def test_multiply_empty():
    assert multiply([], [1, 2]) == []
    assert multiply([1, 2], []) == []


def test_derivative():
    assert derivative([5, 3, 4]) == [3, 8]
    assert derivative([0, 0, 0, 2]) == [0, 0, 6]


def test_derivative_constant():
    assert derivative([9]) == []
    assert derivative([]) == []
    assert derivative([9, 1]) == [1]


def test_product_value():
    first, second = [1, -2, 3], [4, 0, -1]
    both = multiply(first, second)
    assert evaluate(both, 2) == evaluate(first, 2) * evaluate(second, 2)
