"""A fixed-size buffer that overwrites its oldest values."""


class RingBuffer:
    """Remember the last size values."""

    def __init__(self, size: int):
        if size < 1:
            raise ValueError("size must be at least one")
        self.slots = [None] * size
        self.start, self.count = 0, 0

    def push(self, value):
        """Add value and return what it overwrote, if anything."""
        end = (self.start + self.count) % len(self.slots)
        lost = self.slots[end]
        self.slots[end] = value
        if self.count < len(self.slots):
            self.count += 1
        else:
            self.start = (self.start + 1) % len(self.slots)
        return lost

    def pop(self):
        """Remove and return the oldest value."""
        if self.count == 0:
            raise IndexError("the buffer is empty")
        value = self.slots[self.start]
        self.slots[self.start] = None
        self.start = (1 + self.start) % len(self.slots)
        self.count -= 1
        return value

    def values(self) -> list:
        """All values, the oldest first."""
        twice = self.slots + self.slots
        return twice[self.start:self.start + self.count]
