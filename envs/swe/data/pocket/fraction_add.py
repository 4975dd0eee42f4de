"""Arithmetic on fractions kept as (top, bottom) pairs."""

from math import gcd


def reduced(top: int, bottom: int) -> tuple:
    """Lowest terms, with a positive bottom."""
    if bottom == 0:
        raise ZeroDivisionError("bottom is zero")
    shared = gcd(top, bottom)
    if bottom < 0:
        shared = -shared
    return top // shared, bottom // shared


def add(first: tuple, second: tuple) -> tuple:
    """Sum of two fractions in lowest terms."""
    top = first[0] * second[1] + second[0] * first[1]
    return reduced(top, first[1] * second[1])


def mixed(fraction: tuple) -> str:
    """Text such as '2 1/3', '-1/2' or '4'."""
    top, bottom = reduced(fraction[0], fraction[1])
    sign = "-" if top < 0 else ""
    whole, rest = divmod(abs(top), bottom)
    if rest == 0:
        return f"{sign}{whole}"
    if whole == 0:
        return f"{sign}{rest}/{bottom}"
    return f"{sign}{whole} {rest}/{bottom}"
