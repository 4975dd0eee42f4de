import pytest
from bank_ledger import Ledger


def test_a_busy_day():
    bank = Ledger()
    bank.deposit("x", 1000)
    bank.deposit("y", 400)
    bank.transfer("x", "y", 250)
    assert bank.withdraw("y", 600, 25) == 25
    assert bank.balances == {"x": 750, "y": 25}
    assert bank.statement("y") == [400, 250, -625]


def test_history_of_all():
    bank = Ledger(10)
    bank.deposit("a", 5)
    bank.transfer("a", "b", 15)
    assert bank.history == [("a", 5), ("a", -15), ("b", 15)]
    assert bank.balances["a"] == -10


def test_fee_counts_against_overdraft():
    bank = Ledger(20)
    bank.deposit("a", 10)
    with pytest.raises(ValueError):
        bank.withdraw("a", 29, 2)
    assert bank.withdraw("a", 28, 2) == -20


def test_bad_amounts():
    bank = Ledger(1000)
    bank.deposit("a", 10)
    with pytest.raises(ValueError):
        bank.withdraw("a", -3)
    with pytest.raises(ValueError):
        bank.withdraw("a", 0, 5)
    with pytest.raises(ValueError):
        bank.transfer("a", "b", 0)
    assert bank.balances == {"a": 10}


def test_deposit_of_nothing_opens_nothing():
    bank = Ledger()
    with pytest.raises(ValueError):
        bank.deposit("a", -1)
    assert bank.balances == {} and bank.history == []


def test_unknown_giver():
    bank = Ledger()
    with pytest.raises(KeyError):
        bank.transfer("nobody", "a", 5)
    with pytest.raises(ValueError):
        bank.transfer("nobody", "nobody", 5)


def test_no_overdraft_by_default():
    bank = Ledger()
    bank.deposit("a", 3)
    with pytest.raises(ValueError):
        bank.withdraw("a", 4)
    assert bank.withdraw("a", 3) == 0
    assert bank.deposit("a", 2) == 2


def test_two_ledgers_are_apart():
    one, two = Ledger(), Ledger(5)
    one.deposit("a", 9)
    assert two.balances == {}
    assert two.statement("a") == []
