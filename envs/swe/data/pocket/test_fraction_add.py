import pytest
from fraction_add import add, mixed, reduced


def test_reduced():
    assert reduced(6, 8) == (3, 4)
    assert reduced(5, 7) == (5, 7)
    assert reduced(10, 5) == (2, 1)


def test_reduced_signs():
    assert reduced(-6, 8) == (-3, 4)
    assert reduced(6, -8) == (-3, 4)
    assert reduced(-6, -8) == (3, 4)


def test_reduced_zero():
    assert reduced(0, 9) == (0, 1)
    with pytest.raises(ZeroDivisionError, match="bottom"):
        reduced(1, 0)


def test_reduced_bottom_one():
    assert reduced(4, 1) == (4, 1)
    assert reduced(4, -1) == (-4, 1)


def test_add_same_bottom():
    assert add((1, 5), (2, 5)) == (3, 5)
    assert add((1, 4), (1, 4)) == (1, 2)


def test_add_other_bottom():
    assert add((1, 2), (1, 3)) == (5, 6)
    assert add((3, 4), (5, 6)) == (19, 12)


def test_add_negative():
    assert add((1, 2), (-1, 2)) == (0, 1)
    assert add((1, 3), (1, -2)) == (-1, 6)


def test_mixed_parts():
    assert mixed((7, 3)) == "2 1/3"
    assert mixed((3, 4)) == "3/4"
    assert mixed((8, 2)) == "4"
    assert mixed((10, 4)) == "2 1/2"


def test_mixed_negative():
    assert mixed((-7, 3)) == "-2 1/3"
    assert mixed((1, -2)) == "-1/2"
    assert mixed((-3, 1)) == "-3"


def test_mixed_zero():
    assert mixed((0, 4)) == "0"
