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


def digital_root(number: int, rounds: int = 0) -> tuple:
    """Sum digits until one is left; give it and the rounds."""
    value = abs(number)
    if value < 10:
        return value, rounds
    return digital_root(digits_sum(value), rounds + 1)


def is_harshad(number: int) -> bool:
    """True if a positive number is divisible by its digit sum."""
    if number <= 0:
        return False
    return number % digits_sum(number) == 0
