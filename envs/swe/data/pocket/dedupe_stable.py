"""Removing and finding duplicates without changing the order."""


def dedupe_stable(items, key=None, keep: str = "first") -> list:
    """Keep the first or the last item of each key."""
    if keep not in ("first", "last"):
        raise ValueError("keep must be first or last")
    source = list(items)
    if keep == "last":
        source.reverse()
    seen, kept = set(), []
    for item in source:
        mark = item if key is None else key(item)
        if mark not in seen:
            seen.add(mark)
            kept.append(item)
    return kept if keep == "first" else kept[::-1]


def duplicates(items, least: int = 2) -> list:
    """Values that occur least times or more, by first sight."""
    counts = {}
    for value in items:
        counts[value] = counts.get(value, 0) + 1
    return [value for value in counts if counts[value] >= least]


def squeeze(items) -> list:
    """Drop an item that equals the one just before it."""
    squeezed = []
    for position, entry in enumerate(items):
        if position == 0 or entry != squeezed[-1]:
            squeezed.append(entry)
    return squeezed
