"""Leap years and month lengths of the Gregorian calendar."""

LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def is_leap(year: int) -> bool:
    """True for years that have a 29th of February."""
    if year % 400 == 0:
        return True
    return year % 4 == 0 and year % 100 != 0


def month_length(year: int, month: int) -> int:
    """Number of days in a month, counted from 1 for January."""
    if month < 1 or month > 12:
        raise ValueError("month must be from 1 to 12")
    days = LENGTHS[month - 1]
    if month == 2 and is_leap(year):
        days += 1
    return days


def leaps_between(first: int, last: int) -> int:
    """How many leap years lie from first to last, both included."""
    before = (first - 1) // 4 - (first - 1) // 100 + (first - 1) // 400
    through = last // 4 - last // 100 + last // 400
    return max(0, through - before)
