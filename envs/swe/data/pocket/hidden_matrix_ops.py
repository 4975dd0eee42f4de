import pytest
from matrix_ops import determinant, multiply, transpose


def test_transpose_twice():
    matrix = [[4, 5, 6], [7, 8, 9]]
    assert transpose(matrix) == [[4, 7], [5, 8], [6, 9]]
    assert transpose(transpose(matrix)) == matrix


def test_transpose_column():
    assert transpose([[3], [4]]) == [[3, 4]]
    assert transpose([[8]]) == [[8]]


def test_product_rectangular():
    left = [[1, 0, 2], [0, 3, 1]]
    right = [[1, 2], [0, 1], [4, 0]]
    assert multiply(left, right) == [[9, 2], [4, 3]]
    assert multiply(right, left) == [[1, 6, 4], [0, 3, 1], [4, 0, 8]]


def test_product_order_matters():
    turn = [[0, -1], [1, 0]]
    grow = [[2, 0], [0, 5]]
    assert multiply(turn, grow) == [[0, -5], [2, 0]]
    assert multiply(grow, turn) == [[0, -2], [5, 0]]


def test_product_shape_errors():
    with pytest.raises(ValueError):
        multiply([[1], [2]], [[1], [2]])
    with pytest.raises(ValueError):
        multiply([[1, 2, 3]], [[1, 2, 3], [4, 5, 6]])


def test_determinant_four():
    matrix = [[1, 2, 0, 1], [0, 1, 3, 2], [2, 0, 1, 1], [1, 1, 0, 2]]
    assert determinant(matrix) == 18
    assert determinant(transpose(matrix)) == 18


def test_determinant_of_product():
    left, right = [[3, 1], [2, 5]], [[1, 4], [2, 1]]
    assert determinant(left) * determinant(right) == -91
    assert determinant(multiply(left, right)) == -91
