"""Averages that slide over a list of numbers."""


def moving_average(values: list, window: int) -> list:
    """Mean of each full window of neighbouring values."""
    if window < 1:
        raise ValueError("window must be at least 1")
    means = []
    total = 0
    for index, value in enumerate(values):
        total += value
        if index >= window:
            total -= values[index - window]
        if index >= window - 1:
            means.append(total / window)
    return means


def smooth(values: list, weight: float) -> list:
    """Exponential average; weight is the share of the new value."""
    if weight <= 0 or weight > 1:
        raise ValueError("weight must be above 0 and at most 1")
    smoothed = list(values[:1])
    for fresh in values[1:]:
        old = smoothed[-1]
        smoothed.append(old + weight * (fresh - old))
    return smoothed
