"""Walking several lists of different lengths side by side."""


def zip_longest_fill(*rows, fill=None) -> list:
    """Tuples of the nth items, with fill where a row is short."""
    width = 0
    for row in rows:
        width = max(width, len(row))
    table = []
    for n in range(width):
        line = [row[n] if n < len(row) else fill for row in rows]
        table.append(tuple(line))
    return table


def round_robin(*rows) -> list:
    """First items of all rows, then second items, without gaps."""
    hole = object()
    taken = []
    for group in zip_longest_fill(*rows, fill=hole):
        taken += [item for item in group if item is not hole]
    return taken


def pad_rows(rows, fill="", least: int = 1) -> list:
    """Copies of rows, all as long as the longest (or least)."""
    size = least
    for entry in rows:
        if len(entry) > size:
            size = len(entry)
    return [list(r) + [fill] * (size - len(r)) for r in rows]
