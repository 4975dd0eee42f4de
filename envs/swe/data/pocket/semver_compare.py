"""Comparing versions such as 1.4.0 and 2.0.0-beta.3."""


def parse_version(text: str) -> tuple:
    """Three numbers and the list of pre-release marks."""
    plain = text.split("+")[0]
    core, _, tail = plain.partition("-")
    numbers = [int(part) for part in core.split(".")]
    if len(numbers) != 3 or min(numbers) < 0:
        raise ValueError("a version needs three numbers")
    return numbers, tail.split(".") if tail else []


def rank(mark: str) -> tuple:
    """Sort key of a mark: numbers come before words."""
    if mark.isdecimal():
        return 0, int(mark), ""
    return 1, 0, mark


def semver_compare(one: str, two: str) -> int:
    """-1, 0 or 1 as one is older, equal to or newer than two."""
    left, early = parse_version(one)
    right, soon = parse_version(two)
    if left == right:
        left = [not early] + [rank(mark) for mark in early]
        right = [not soon] + [rank(mark) for mark in soon]
    if left == right:  # even after that
        return 0
    return -1 if left < right else 1


def is_compatible(have: str, want: str) -> bool:
    """Same major number and not older (with 0: same minor too)."""
    mine, other = parse_version(have)[0], parse_version(want)[0]
    width = 2 if other[0] == 0 else 1
    same = mine[:width] == other[:width]
    return same and semver_compare(have, want) >= 0
