"""Chains of the Collatz rule: halve, or triple and add one."""


def chain(start: int, limit: int = 500) -> list:
    """Numbers from start down to 1, at most limit steps."""
    if start < 1:
        raise ValueError("start must be positive")
    numbers = [start]
    for _ in range(limit):
        current = numbers[-1]
        if current == 1:
            break
        if current % 2 == 0:
            numbers.append(current // 2)
        else:
            numbers.append(3 * current + 1)
    return numbers


def longest_start(first: int, last: int):
    """Start of the longest chain, the smallest; None if empty."""
    best = None
    most = 0
    for start in range(first, last + 1):
        length = len(chain(start))
        if length > most:
            best, most = start, length
    return best
