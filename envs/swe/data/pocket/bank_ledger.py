"""A ledger of bank accounts; all amounts are whole cents."""


class Ledger:
    """Balances that may fall to minus the overdraft."""

    def __init__(self, overdraft: int = 0):
        self.overdraft = overdraft
        self.balances, self.history = {}, []

    def deposit(self, name: str, amount: int) -> int:
        """Add amount, opening the account if needed."""
        if amount <= 0:
            raise ValueError("the amount must be positive")
        self.balances[name] = self.balances.get(name, 0) + amount
        self.history.append((name, amount))
        return self.balances[name]

    def withdraw(self, name: str, amount: int, fee: int = 0) -> int:
        """Take amount and fee out of an account."""
        held, total = self.balances.get(name), amount + fee
        if held is None:
            raise KeyError(name)
        if amount < 1 or total > held + self.overdraft:
            raise ValueError("the amount is not available")
        self.balances[name] = held - total
        self.history.append((name, -total))
        return held - total

    def transfer(self, giver: str, taker: str, amount: int):
        """Move amount between two accounts."""
        if giver == taker:
            raise ValueError("the accounts are the same")
        self.withdraw(giver, amount)
        self.deposit(taker, amount)

    def statement(self, name: str) -> list:
        """All changes of one account, the oldest first."""
        return [cents for owner, cents in self.history if owner == name]
