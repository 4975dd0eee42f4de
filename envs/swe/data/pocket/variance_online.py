"""Mean and variance of numbers that arrive one by one."""


class RunningStats:
    """Welford's method: no value is stored, none is lost."""

    def __init__(self):
        self.count = 0
        self.mean = 0.0
        self.squares = 0.0

    def push(self, value):
        """Take in one more value."""
        self.count += 1
        delta = value - self.mean
        self.mean += delta / self.count
        self.squares += delta * (value - self.mean)

    def variance(self, sample=True):
        """Variance of the sample, or of the whole population."""
        freedom = self.count - 1 if sample else self.count
        if freedom < 1:
            raise ValueError("not enough values")
        return self.squares / freedom

    def merge(self, other):
        """New statistics over the values of self and other."""
        both = RunningStats()
        both.count = self.count + other.count
        if both.count > 0:
            gap = other.mean - self.mean
            both.mean = self.mean + gap * other.count / both.count
            weight = self.count * other.count / both.count
            both.squares = self.squares + other.squares
            both.squares += gap**2 * weight
        return both
