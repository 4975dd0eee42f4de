"""Sums over the digits of whole numbers."""


def digits_sum(number: int, base: int = 10) -> int:
    """Add up the digits of number written in base."""
    if base < 2:
        raise ValueError("base must be at least 2")
    rest = abs(number)
    total = 0
    for _ in range(rest.bit_length()):
        total += rest % base
        rest //= base
    return total


def digital_root(number: int) -> tuple:
    """Sum digits until one is left; give it and the rounds."""
    rounds = 0
    value = abs(number)
    while value > 9 and rounds < 50:
        value = digits_sum(value, 10)
        rounds += 1
    return value, rounds


def is_harshad(number: int) -> bool:
    """True if a positive number is divisible by its digit sum."""
    if number <= 0:
        return False
    return number % digits_sum(number) == 0
