"""Distances between dates written as year-month-day."""

BEFORE = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)


def day_number(year: int, month: int, day: int) -> int:
    """Days from the start of year 1, that day counting as 1."""
    past = year - 1
    number = past * 365 + past // 4 - past // 100 + past // 400
    number += BEFORE[month - 1] + day
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if leap and month > 2:
        number += 1
    return number


def parse(text: str) -> tuple:
    """Year, month and day out of text such as 2024-02-29."""
    parts = text.split("-")
    if len(parts) != 3:
        raise ValueError("not a date: " + text)
    year, month, day = [int(part) for part in parts]
    if not 1 <= month <= 12 or not 1 <= day <= 31:
        raise ValueError("no such date: " + text)
    return year, month, day


def days_between(start: str, end: str) -> int:
    """Days from start to end, negative if end comes first."""
    return day_number(*parse(end)) - day_number(*parse(start))
