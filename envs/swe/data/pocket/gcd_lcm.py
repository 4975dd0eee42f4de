"""Greatest common divisors and least common multiples."""


def gcd(first: int, second: int) -> int:
    """Largest whole number dividing both; gcd(0, 0) is 0."""
    first = abs(first)
    second = abs(second)
    while second > 0:
        first, second = second, first % second
    return first


def lcm(*numbers: int) -> int:
    """Smallest positive common multiple, or 0 if one is 0."""
    result = 1
    for number in numbers:
        if number == 0:
            return 0
        result = result // gcd(result, number) * abs(number)
    return result


def coprime_below(limit: int) -> list:
    """Numbers from 1 below limit that share no factor with it."""
    found = []
    for candidate in range(1, limit):
        if gcd(candidate, limit) == 1:
            found.append(candidate)
    return found
