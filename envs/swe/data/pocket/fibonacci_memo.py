"""Fibonacci numbers with a memo, and sums of them."""


def fibonacci(index: int, memo=None) -> int:
    """Number at index: 0, 1, 1, 2, 3, 5, ...; memo is filled."""
    if index < 0:
        raise ValueError("index must not be negative")
    if memo is None:
        memo = {}
    if index < 2:
        return index
    if index not in memo:
        before = fibonacci(index - 2, memo)
        memo[index] = before + fibonacci(index - 1, memo)
    return memo[index]


def zeckendorf(number: int) -> list:
    """Largest first: distinct Fibonacci numbers adding to number."""
    known = {}
    parts = []
    for index in range(number.bit_length() * 2 + 1, 1, -1):
        value = fibonacci(index, known)
        if value <= number:
            parts.append(value)
            number -= value
    return parts
