"""Read durations such as '1h30m' or '01:30:00' as seconds."""

UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}


def parse_units(text: str) -> int:
    """Seconds in text such as '2d 4h' or '90s'."""
    seconds, digits = 0, ""
    for char in text.lower():
        if char.isdigit():
            digits += char
        elif char in UNITS and digits:
            seconds += int(digits) * UNITS[char]
            digits = ""
        elif char != " " or digits:
            raise ValueError("unexpected " + repr(char))
    if digits or text.strip() == "":
        raise ValueError("a number without a unit")
    return seconds


def parse_clock(text: str) -> int:
    """Seconds in text such as '1:05' or '2:00:30'."""
    parts = text.split(":")
    if len(parts) not in (2, 3):
        raise ValueError("expected m:s or h:m:s")
    total = int(parts[0])
    for part in parts[1:]:
        if len(part) != 2 or int(part) > 59:
            raise ValueError("bad part " + part)
        total = total * 60 + int(part)
    return total
