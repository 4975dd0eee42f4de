"""Edit distance between words, and spelling suggestions."""


def edit_distance(source: str, target: str, swap: int = 1) -> int:
    """Cheapest way to insert, delete (1) or swap letters."""
    row = list(range(len(target) + 1))
    for i, old in enumerate(source, 1):
        previous, row = row, [i]
        for j, new in enumerate(target, 1):
            change = previous[j - 1] + (0 if old == new else swap)
            delete = previous[j] + 1
            insert = row[j - 1] + 1
            row.append(min(change, delete, insert))
    return row[-1]


def suggest(word: str, known, limit: int = 2) -> list:
    """Known words within limit edits, the closest ones first."""
    if limit < 0:
        raise ValueError("limit must not be negative")
    close = []
    for candidate in known:
        steps = edit_distance(word, candidate)
        if steps <= limit:
            close.append((steps, candidate))
    return [candidate for _, candidate in sorted(close)]


def similarity(one: str, two: str) -> float:
    """1.0 for equal words down to 0.0 for nothing alike."""
    longest = max(len(one), len(two))
    if longest == 0:
        return 1.0
    return 1 - edit_distance(one, two) / longest
