"""Rate limiting with a token bucket; the caller tells the time."""


class TokenBucket:
    """Hold up to size tokens and regain rate of them a second."""

    def __init__(self, size: float, rate: float, now: float = 0):
        if size <= 0 or rate <= 0:
            raise ValueError("size and rate must be positive")
        self.size, self.rate = size, rate
        self.tokens, self.seen = size, now

    def refill(self, now: float):
        """Add the tokens earned since the last call."""
        if now < self.seen:
            raise ValueError("time must not run backwards")
        earned = (now - self.seen) * self.rate
        self.tokens = min(self.size, self.tokens + earned)
        self.seen = now

    def take(self, now: float, amount: float = 1) -> bool:
        """Take amount tokens if that many are there."""
        self.refill(now)
        if amount > self.tokens:
            return False
        self.tokens -= amount
        return True

    def wait(self, now: float, amount: float = 1) -> float:
        """Seconds from now until take(amount) would succeed."""
        if amount > self.size:
            raise OverflowError("more than the bucket can hold")
        self.refill(now)  # so that tokens are up to date
        lacking = amount - self.tokens
        return lacking / self.rate if lacking > 0 else 0
