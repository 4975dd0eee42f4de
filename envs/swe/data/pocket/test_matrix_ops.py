import pytest
from matrix_ops import determinant, multiply, transpose


def test_transpose_square():
    assert transpose([[1, 2], [3, 4]]) == [[1, 3], [2, 4]]


def test_transpose_wide():
    assert transpose([[1, 2, 3]]) == [[1], [2], [3]]
    assert transpose([[1, 2], [3, 4], [5, 6]]) == [[1, 3, 5], [2, 4, 6]]


def test_multiply_square():
    left = [[1, 2], [3, 4]]
    assert multiply(left, [[5, 6], [7, 8]]) == [[19, 22], [43, 50]]
    assert multiply(left, [[0, 1], [1, 0]]) == [[2, 1], [4, 3]]


def test_multiply_shapes():
    assert multiply([[1, 2, 3]], [[4], [5], [6]]) == [[32]]
    assert multiply([[2], [3]], [[4, 5]]) == [[8, 10], [12, 15]]


def test_multiply_misfit():
    with pytest.raises(ValueError):
        multiply([[1, 2]], [[1, 2]])


def test_determinant_small():
    assert determinant([[7]]) == 7
    assert determinant([[1, 2], [3, 4]]) == -2
    assert determinant([[2, 4], [1, 2]]) == 0


def test_determinant_three():
    assert determinant([[2, 0, 1], [1, 3, 2], [4, 1, 5]]) == 15
    assert determinant([[1, 2, 3], [4, 5, 6], [7, 8, 10]]) == -3


def test_determinant_identity():
    assert determinant([[1, 0, 0], [0, 1, 0], [0, 0, 1]]) == 1
    assert determinant([[0, 1], [1, 0]]) == -1
