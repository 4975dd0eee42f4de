"""Write a number of seconds for people to read."""

STEPS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))


def in_units(seconds: int, keep: int = 4) -> str:
    """Text such as '1h 5s'; at most keep units are shown."""
    if seconds < 0:
        return "-" + in_units(-seconds, keep)
    pieces = []
    for unit, size in STEPS:
        amount = seconds // size
        seconds %= size
        if amount > 0 and len(pieces) < keep:
            pieces.append(str(amount) + unit)
    return " ".join(pieces) or "0s"


def as_clock(seconds: int) -> str:
    """Text such as '2:05' or, from one hour on, '1:02:05'."""
    minutes, rest = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes}:{rest:02d}"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}"


def roughly(seconds: int) -> str:
    """Largest unit only, rounded to the nearest whole amount."""
    for name, span in STEPS:
        if seconds >= span:
            amount = (2 * seconds + span) // (2 * span)
            return f"about {amount}{name}"
    return "no time"
