"""A calculator for reverse Polish notation."""


def apply(sign: str, left: float, right: float) -> float:
    if sign == "+":
        return left + right
    if sign == "-":
        return left - right
    if sign == "*":
        return left * right
    if right == 0:
        raise ZeroDivisionError("nothing divides by zero")
    return left / right


def stack_calc(text: str) -> float:
    """Value of an expression such as 2 3 + 4 *."""
    stack = []
    for token in text.split():
        if token not in ("+", "-", "*", "/", "neg", "dup"):
            stack.append(float(token))
            continue
        needed = 2 if len(token) == 1 else 1
        if len(stack) < needed:
            raise ArithmeticError(f"too few values for {token}")
        top = stack.pop()
        if token == "neg":
            stack.append(-top)
        elif token == "dup":
            stack.extend([top, top])
        else:
            stack.append(apply(token, stack.pop(), top))
    if len(stack) != 1:
        raise ValueError("one value must be left over")
    return stack[0]
