"""Write and read whole numbers in bases 2 to 36."""

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def to_base(number: int, base: int) -> str:
    """Digits of number in base, with a minus sign if needed."""
    if not 2 <= base <= 36:
        raise ValueError("base must be from 2 to 36")
    rest = abs(number)
    text = ""
    for _ in range(rest.bit_length()):
        if rest == 0:
            break
        rest, digit = divmod(rest, base)
        text = DIGITS[digit] + text
    sign = "-" if number < 0 else ""
    return sign + (text or "0")


def from_base(text: str, base: int) -> int:
    """Value of text in base; upper case digits are fine."""
    negative = text.startswith("-")
    body = text[1:] if negative else text
    if body == "":
        raise ValueError("no digits")
    value = 0
    for char in body.lower():
        digit = DIGITS.find(char)
        if digit < 0 or digit >= base:
            raise ValueError("bad digit " + char)
        value = value * base + digit
    return -value if negative else value
