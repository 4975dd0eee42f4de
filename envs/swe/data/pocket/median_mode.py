"""Middle and most frequent values of a list."""


def median(values):
    """Middle of the sorted values, or mean of the middle two."""
    if not values:
        raise ValueError("median of no values")
    ordered = sorted(values)
    half = len(ordered) // 2
    if len(ordered) % 2 == 1:
        return ordered[half]
    return (ordered[half - 1] + ordered[half]) / 2


def modes(values) -> list:
    """Most frequent values, in the order they first appear."""
    counts = {}
    for value in values:
        counts[value] = counts.get(value, 0) + 1
    highest = max(counts.values(), default=0)
    result = []
    for value, count in counts.items():
        if count == highest:
            result.append(value)
    return result


def spread(values):
    """Median distance of the values from their median."""
    middle = median(values)
    return median([abs(value - middle) for value in values])
