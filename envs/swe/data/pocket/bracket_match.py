"""Checking that brackets in a text match."""

PAIRS = {")": "(", "]": "[", "}": "{"}


def first_error(text: str) -> int:
    """Position of the first wrong bracket, or -1."""
    waiting = []
    for position, char in enumerate(text):
        if char in PAIRS.values():
            waiting.append((char, position))
        elif char in PAIRS:
            opener = waiting.pop()[0] if waiting else ""
            if opener != PAIRS[char]:
                return position
    return waiting[0][1] if waiting else -1


def deepest(text: str) -> int:
    """Largest number of brackets open at one time."""
    if first_error(text) >= 0:
        raise ValueError("the brackets do not match")
    level, record = 0, 0
    for letter in text:
        if letter in "([{":
            level += 1
            record = max(record, level)
        elif letter in ")]}":
            level -= 1
    return record


def partner(text: str, start: int) -> int:
    """Position of the bracket that closes the one at start."""
    for end in range(start + 1, len(text) + 1):
        if first_error(text[start:end]) == -1:
            return end - 1
    raise LookupError("nothing closes it")
