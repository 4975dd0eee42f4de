"""Free gaps between busy half-open intervals."""


def gaps(busy, start, end):
    if start > end:
        raise ValueError("window is reversed")
    free = []
    cursor = start
    for left, right in sorted(busy):
        if right <= start or left >= end:
            continue
        if left > cursor:
            free.append((cursor, left))
        cursor = max(cursor, right)
    if cursor < end:
        free.append((cursor, end))
    return free


def longest_gap(busy, start, end):
    best = 0
    for low, high in gaps(busy, start, end):
        best = max(best, high - low)
    return best
