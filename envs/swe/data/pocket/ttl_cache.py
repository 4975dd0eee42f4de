"""A cache whose entries expire; the caller tells the time."""


class TTLCache:
    """Entries live for life seconds after they were stored."""

    def __init__(self, life: float = 60, limit: int = 100):
        if life <= 0 or limit < 1:
            raise ValueError("life and limit must be positive")
        self.life, self.limit = life, limit
        self.store = {}

    def put(self, key, value, now: float, life=None):
        """Store value until now plus its life."""
        self.purge(now)
        if key not in self.store and len(self.store) >= self.limit:
            raise OverflowError("the cache is full")
        span = self.life if life is None else life
        self.store[key] = (value, now + span)

    def get(self, key, now: float, default=None):
        """Value of key if it has not expired at now."""
        if key not in self.store:
            return default
        value, expires = self.store[key]
        return value if now < expires else default

    def left(self, key, now: float) -> float:
        """Seconds until key expires; zero if it is gone."""
        deadline = self.store.get(key, (None, now))[1]
        return max(deadline - now, 0)

    def purge(self, now: float) -> int:
        """Drop what has expired and say how many entries."""
        old = [k for k in self.store if self.store[k][1] <= now]
        for key in old:
            self.store.pop(key)
        return len(old)
