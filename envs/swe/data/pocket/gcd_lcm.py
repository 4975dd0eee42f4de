"""Greatest common divisors and least common multiples."""


def gcd(first: int, second: int) -> int:
    """Largest whole number dividing both; gcd(0, 0) is 0."""
    first = abs(first)
    second = abs(second)
    while second > 0:
        first, second = second, first % second
    return first


def lcm(first: int, second: int) -> int:
    """Smallest positive common multiple, or 0 if one is 0."""
    if first == 0 or second == 0:
        return 0
    return abs(first // gcd(first, second) * second)


def lcm_all(numbers) -> int:
    """Common multiple of any amount of numbers."""
    result = 1
    for number in numbers:
        result = lcm(result, number)
    return result


def coprime_below(limit: int) -> list:
    """Numbers from 1 below limit that share no factor with it."""
    found = []
    for candidate in range(1, limit):
        if gcd(candidate, limit) == 1:
            found.append(candidate)
    return found
