"""Converting lengths, weights, times and temperatures."""

UNITS = {
    "length": {"mm": 1, "cm": 10, "m": 1000, "km": 1000000},
    "weight": {"g": 1, "kg": 1000, "oz": 28.35, "lb": 453.6},
    "time": {"s": 1, "min": 60, "h": 3600, "d": 86400},
}


def unit_convert(value: float, source: str, target: str) -> float:
    """Value in target units, for units of the same kind."""
    for table in UNITS.values():
        if source in table and target in table:
            return value * table[source] / table[target]
    raise ValueError(f"cannot turn {source} into {target}")


def temperature(degrees: float, source: str, target: str) -> float:
    """Convert between C, F and K."""
    if source == "F":
        degrees = (degrees - 32) * 5 / 9
    elif source == "K":
        degrees = degrees - 273.15
    if degrees < -273.15:
        raise ValueError("below absolute zero")
    if target == "F":
        return degrees * 9 / 5 + 32
    return degrees + 273.15 if target == "K" else degrees


def best_unit(value: float, unit: str) -> str:
    """Largest unit that keeps value at one or more, or unit."""
    best, least = unit, value
    for units in UNITS.values():
        for name in units if unit in units else []:
            amount = unit_convert(value, unit, name)
            if amount >= 1 and (amount < least or least < 1):
                best, least = name, amount
    return best
