"""Weekdays of dates, Monday being number 0."""

NAMES = ("Monday Tuesday Wednesday Thursday Friday "
         "Saturday Sunday").split()
SHIFTS = (0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4)


def weekday(year: int, month: int, day: int) -> int:
    """Number of the weekday, 0 for Monday to 6 for Sunday."""
    if month < 3:
        year -= 1
    leaps = year // 4 - year // 100 + year // 400
    return (year + leaps + SHIFTS[month - 1] + day - 1) % 7


def weekday_name(year: int, month: int, day: int, size: int = 9) -> str:
    """English name of the weekday, cut to size letters."""
    name = NAMES[weekday(year, month, day)]
    return name[:size]


def nth_weekday(year: int, month: int, wanted: int, count: int) -> int:
    """Day of the month of the count-th wanted weekday."""
    if count < 1:
        raise ValueError("count starts at 1")
    first = weekday(year, month, 1)
    ahead = (wanted - first) % 7
    return 1 + ahead + 7 * (count - 1)
