"""Clamp numbers to a range and map one range to another."""


def clamp(value, low, high):
    """Nearest number to value that lies from low to high."""
    if low > high:
        raise ValueError("low is above high")
    if value < low:
        return low
    if value > high:
        return high
    return value


def scale(value, source: tuple, target: tuple, clip: bool = False):
    """Map value linearly from the source to the target range."""
    start, end = source
    if start == end:
        raise ZeroDivisionError("the source range is empty")
    share = (value - start) / (end - start)
    if clip:
        share = clamp(share, 0, 1)
    return target[0] + share * (target[1] - target[0])


def wrap(value, low, high):
    """Move value by whole spans until low <= value < high."""
    span = high - low
    return low + (value - low) % span
