"""Prime numbers by crossing out multiples."""


def primes_up_to(limit: int) -> list:
    """All primes not above limit, in rising order."""
    prime = [True] * (limit + 1)
    found = []
    for number in range(2, limit + 1):
        if not prime[number]:
            continue
        found.append(number)
        for multiple in range(2 * number, limit + 1, number):
            prime[multiple] = False
    return found


def prime_factors(number: int) -> list:
    """Prime factors of a positive number, with repeats."""
    if number < 1:
        raise ValueError("number must be positive")
    factors = []
    for divisor in primes_up_to(number):
        for _ in range(number.bit_length()):
            if number % divisor != 0:
                break
            factors.append(divisor)
            number //= divisor
    return factors
