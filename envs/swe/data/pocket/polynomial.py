"""Polynomials as coefficient lists, the constant term first."""


def evaluate(coefficients: list, x):
    """Value at x by Horner's rule."""
    value = 0
    for coefficient in reversed(coefficients):
        value = value * x + coefficient
    return value


def multiply(first: list, second: list) -> list:
    """Coefficients of the product, zero terms included."""
    if first == [] or second == []:
        return []
    product = [0] * (len(first) + len(second) - 1)
    for power, factor in enumerate(first):
        for place, other in enumerate(second):
            product[power + place] += factor * other
    return product


def derivative(coefficients: list) -> list:
    """Coefficients of the first derivative."""
    slopes = []
    for power, factor in enumerate(coefficients):
        if power > 0:
            slopes.append(power * factor)
    return slopes
