"""Check and convert International Standard Book Numbers."""


def check_char(body: str) -> str:
    """Check character for the first nine or twelve digits."""
    if len(body) == 9:
        total = 0
        for place, digit in enumerate(body):
            total += (10 - place) * int(digit)
        rest = -total % 11
        return "X" if rest == 10 else str(rest)
    if len(body) != 12:
        raise ValueError("expected 9 or 12 digits")
    odd = sum(int(digit) for digit in body[::2])
    even = sum(int(digit) for digit in body[1::2])
    return str(-(odd + 3 * even) % 10)


def is_isbn(text: str) -> bool:
    """True for a valid ISBN of either length, hyphens allowed."""
    code = text.replace("-", "").upper()
    body, last = code[:-1], code[-1:]
    if len(body) not in (9, 12) or not body.isascii():
        return False
    return body.isdigit() and last == check_char(body)


def to_isbn13(text: str) -> str:
    """Turn a valid ISBN-10 into an ISBN-13 without hyphens."""
    code = text.replace("-", "")
    if len(code) != 10 or not is_isbn(code):
        raise ValueError("not an ISBN-10")
    longer = "978" + code[:9]
    return longer + check_char(longer)
