"""Percentiles with linear interpolation."""


def percentile(values: list, rank: float) -> float:
    """Value below which about rank percent of values lie."""
    if not values:
        raise ValueError("no values")
    if rank < 0 or rank > 100:
        raise ValueError("rank must be from 0 to 100")
    ordered = sorted(values)
    position = rank / 100 * (len(ordered) - 1)
    below = int(position)
    if below + 1 == len(ordered):
        return ordered[below]
    share = position - below
    step = ordered[below + 1] - ordered[below]
    return ordered[below] + share * step


def summary(values: list) -> tuple:
    """Lowest, quartiles and highest: five numbers."""
    ranks = (0, 25, 50, 75, 100)
    return tuple(percentile(values, rank) for rank in ranks)


def outliers(values: list, factor: float = 1.5) -> list:
    """Values further than factor box lengths from the box."""
    low, high = percentile(values, 25), percentile(values, 75)
    reach = factor * (high - low)
    return [x for x in values if x < low - reach or x > high + reach]
