"""A cache that forgets what was not used for longest."""


class LRU:
    """Keep at most capacity entries, oldest use first."""

    def __init__(self, capacity: int = 8):
        if capacity < 1:
            raise ValueError("capacity must be at least one")
        self.capacity = capacity
        self.entries = {}
        self.hits, self.misses = 0, 0

    def get(self, key, default=None):
        """Value of key, which counts as a use of it."""
        if key not in self.entries:
            self.misses += 1
            return default
        self.hits += 1
        value = self.entries.pop(key)
        self.entries[key] = value
        return value

    def put(self, key, value):
        """Store value; give back the key that was pushed out."""
        dropped = None
        if key in self.entries:
            del self.entries[key]
        elif len(self.entries) >= self.capacity:
            dropped = next(iter(self.entries))
            self.entries.pop(dropped)
        self.entries[key] = value  # as the newest
        return dropped

    def ratio(self) -> float:
        asked = self.hits + self.misses
        return self.hits / asked if asked > 0 else 0.0
