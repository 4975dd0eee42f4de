import pytest
from stack_calc import apply, stack_calc


def test_number_alone():
    assert stack_calc("42") == 42
    assert stack_calc(" -1.5 ") == -1.5


def test_four_signs():
    assert stack_calc("7 2 +") == 9
    assert stack_calc("7 2 -") == 5
    assert stack_calc("7 2 *") == 14
    assert stack_calc("7 2 /") == 3.5


def test_nested():
    assert stack_calc("2 3 + 4 *") == 20
    assert stack_calc("2 3 4 * +") == 14
    assert stack_calc("10 2 3 - - 4 /") == 2.75


def test_neg():
    assert stack_calc("5 neg") == -5
    assert stack_calc("3 5 neg -") == 8


def test_dup():
    assert stack_calc("6 dup *") == 36
    assert stack_calc("4 dup dup + -") == -4


def test_too_few_values():
    for text in ("+", "1 -", "neg", "dup", "1 2 + *"):
        with pytest.raises(ArithmeticError, match="too few"):
            stack_calc(text)


def test_left_over():
    with pytest.raises(ValueError):
        stack_calc("1 2")
    with pytest.raises(ValueError):
        stack_calc("")


def test_unknown_word():
    with pytest.raises(ValueError):
        stack_calc("1 2 plus")


def test_division_by_zero():
    with pytest.raises(ZeroDivisionError, match="nothing divides"):
        stack_calc("1 0 /")
    with pytest.raises(ZeroDivisionError, match="nothing divides"):
        apply("/", 5, 0)


def test_apply():
    assert apply("-", 1, 8) == -7
    assert apply("/", 9, 2) == 4.5
    assert apply("/", 1, 1) == 1
    assert apply("*", 3, 0) == 0
