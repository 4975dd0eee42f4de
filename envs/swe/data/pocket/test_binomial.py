import pytest
from binomial import binomial, catalan, pascal_row


def test_binomial_values():
    assert binomial(5, 2) == 10
    assert binomial(6, 3) == 20
    assert binomial(10, 4) == 210
    assert binomial(61, 30) == 232714176627630544


def test_binomial_edges():
    assert binomial(7, 0) == 1
    assert binomial(7, 7) == 1
    assert binomial(7, 1) == 7
    assert binomial(0, 0) == 1


def test_binomial_outside():
    assert binomial(4, 5) == 0
    assert binomial(4, -1) == 0
    assert binomial(0, 1) == 0


def test_binomial_negative_total():
    with pytest.raises(ValueError):
        binomial(-1, 0)
    with pytest.raises(ValueError):
        binomial(-1, 2)


def test_binomial_symmetry():
    assert binomial(12, 5) == binomial(12, 7) == 792


def test_rows():
    assert pascal_row(0) == [1]
    assert pascal_row(1) == [1, 1]
    assert pascal_row(4) == [1, 4, 6, 4, 1]


def test_row_matches_binomial():
    row = pascal_row(9)
    assert len(row) == 10
    assert row == [binomial(9, place) for place in range(10)]


def test_catalan():
    assert catalan(0) == 1
    assert catalan(1) == 1
    assert catalan(3) == 5
    assert catalan(5) == 42
