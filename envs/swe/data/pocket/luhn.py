"""Check digits by Luhn's rule, as used on payment cards."""


def luhn_sum(digits: str) -> int:
    """Sum in which every second digit from the right counts twice."""
    total = 0
    double = False
    for char in reversed(digits):
        value = int(char)
        if double:
            value *= 2
            if value > 9:
                value -= 9
        total += value
        double = not double
    return total


def check_digit(payload: str) -> str:
    """Digit to append so that the whole number becomes valid."""
    missing = -luhn_sum(payload + "0") % 10
    return str(missing)


def is_valid(number: str) -> bool:
    """Check a number; spaces and hyphens may group its digits."""
    compact = number.replace(" ", "").replace("-", "")
    if len(compact) < 2 or not compact.isascii():
        return False
    return compact.isdigit() and luhn_sum(compact) % 10 == 0
