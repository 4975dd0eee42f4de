"""Roman numerals from 1 to 3999."""

VALUES = (1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1)
SIGNS = "M CM D CD C XC L XL X IX V IV I".split()


def to_roman(number: int) -> str:
    """Write number as a Roman numeral."""
    if number < 1 or number > 3999:
        raise ValueError("number out of range")
    numeral = ""
    for value, sign in zip(VALUES, SIGNS):
        times = number // value
        numeral += sign * times
        number -= times * value
    return numeral


def from_roman(numeral: str) -> int:
    """Read a Roman numeral; only the regular spelling is valid."""
    letters = dict(zip("IVXLCDM", (1, 5, 10, 50, 100, 500, 1000)))
    total = 0
    previous = 0
    for letter in reversed(numeral.upper()):
        value = letters.get(letter, 0)
        if value < previous:
            total -= value
        else:
            total += value
            previous = value
    if to_roman(total) != numeral.upper():
        raise ValueError("not a Roman numeral")
    return total
