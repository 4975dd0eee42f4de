"""Clock times with the hour and the minute in Roman numerals."""

SIGNS = {"XL": 40, "X": 10, "IX": 9, "V": 5, "IV": 4, "I": 1}


def numeral(number: int) -> str:
    """Roman numeral for 1 to 59; N (nulla) stands for zero."""
    if number == 0:
        return "N"
    letters = []
    if number >= 50:
        letters.append("L")
        number -= 50
    for sign, value in SIGNS.items():
        count, number = divmod(number, value)
        letters.append(sign * count)
    return "".join(letters)


def roman_clock(hour: int, minute: int, halves: bool = True) -> str:
    """Time such as 'IX:XXX AM', or 'XXI:V' without halves."""
    if not 0 <= hour < 24:
        raise ValueError("hour must be from 0 to 23")
    if minute < 0 or minute > 59:
        raise ValueError("minute must be from 0 to 59")
    if not halves:
        return numeral(hour) + ":" + numeral(minute)
    half = "AM" if hour < 12 else "PM"
    twelve = (hour - 1) % 12 + 1
    return f"{numeral(twelve)}:{numeral(minute)} {half}"
