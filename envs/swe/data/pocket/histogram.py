"""Count values in bins of equal width and draw the counts."""


def bin_counts(values, low, high, bins: int) -> list:
    """Counts per bin; high itself falls into the last bin."""
    if bins < 1 or low >= high:
        raise ValueError("no room for bins")
    counts = [0] * bins
    width = (high - low) / bins
    for value in values:
        if value < low or value > high:
            continue
        place = int((value - low) / width)
        if place == bins:
            place -= 1
        counts[place] += 1
    return counts


def bars(counts: list, length: int = 10) -> list:
    """Lines of '#', the largest count being length wide."""
    largest = max(counts, default=0)
    lines = []
    for count in counts:
        size = 0
        if count > 0:
            size = max(1, count * length // largest)
        lines.append("#" * size)
    return lines
