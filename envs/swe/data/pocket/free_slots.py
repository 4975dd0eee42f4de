"""Free time slots of a working day, in minutes since midnight."""


def free_slots(busy, opens=540, closes=1020, shortest=15):
    """Gaps of at least shortest minutes between busy meetings."""
    if opens >= closes:
        raise ValueError("the day must have a positive length")
    slots = []
    cursor = opens
    for begin, finish in sorted(busy):
        until = min(begin, closes)
        if until - cursor >= shortest:
            slots.append((cursor, until))
        cursor = max(cursor, finish)
    if closes - cursor >= shortest:
        slots.append((cursor, closes))
    return slots


def first_fit(busy, length, opens=540, closes=1020):
    """Start of the first slot that holds length minutes."""
    found = free_slots(busy, opens, closes, length)
    if not found:
        raise ValueError("no slot is long enough")
    return found[0][0]


def clock(minutes):
    return f"{minutes // 60:02d}:{minutes % 60:02d}"
