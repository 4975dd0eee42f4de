import pytest
from stack_calc import apply, stack_calc


def test_long_expression():
    assert stack_calc("5 1 2 + 4 * + 3 -") == 14
    assert stack_calc("100 10 / 2 / 4 *") == 20


def test_order_of_operands():
    assert stack_calc("1 10 -") == -9
    assert stack_calc("1 8 /") == 0.125
    assert stack_calc("2 3 4 - -") == 3


def test_zero_on_the_left():
    assert stack_calc("0 4 /") == 0
    assert stack_calc("0 0 *") == 0


def test_dup_and_neg_together():
    assert stack_calc("3 dup neg +") == 0
    assert stack_calc("2 dup dup * *") == 8
    assert stack_calc("7 neg neg") == 7


def test_any_white_space():
    assert stack_calc("1\n2\t+  3   +") == 6


def test_missing_operands():
    with pytest.raises(ArithmeticError, match="too few"):
        stack_calc("3 *")
    with pytest.raises(ArithmeticError, match="too few"):
        stack_calc("dup 3")
    with pytest.raises(ArithmeticError, match="too few"):
        stack_calc("1 1 + neg /")


def test_not_one_result():
    for text in ("   ", "5 dup", "1 2 3 +", "2 ^", "++"):
        with pytest.raises(ValueError):
            stack_calc(text)


def test_zero_divisor():
    with pytest.raises(ZeroDivisionError, match="nothing"):
        stack_calc("4 2 2 - /")
    assert apply("+", -1, 0) == -1
    assert apply("/", -3, -2) == 1.5
