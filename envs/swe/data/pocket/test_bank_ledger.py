import pytest
from bank_ledger import Ledger


def test_deposit():
    bank = Ledger()
    assert bank.deposit("ann", 500) == 500
    assert bank.deposit("ann", 250) == 750
    assert bank.balances == {"ann": 750}


def test_deposit_must_be_positive():
    bank = Ledger()
    for amount in (0, -5):
        with pytest.raises(ValueError):
            bank.deposit("ann", amount)
    assert bank.deposit("ann", 1) == 1


def test_withdraw():
    bank = Ledger()
    bank.deposit("ann", 500)
    assert bank.withdraw("ann", 200) == 300
    assert bank.withdraw("ann", 300) == 0
    assert bank.balances["ann"] == 0


def test_withdraw_fee():
    bank = Ledger()
    bank.deposit("ann", 500)
    assert bank.withdraw("ann", 100, 5) == 395
    with pytest.raises(ValueError):
        bank.withdraw("ann", 391, 5)
    assert bank.withdraw("ann", 390, 5) == 0


def test_withdraw_too_much():
    bank = Ledger()
    bank.deposit("ann", 100)
    with pytest.raises(ValueError):
        bank.withdraw("ann", 101)
    assert bank.balances["ann"] == 100
    assert bank.history == [("ann", 100)]


def test_withdraw_nothing():
    bank = Ledger()
    bank.deposit("ann", 100)
    with pytest.raises(ValueError):
        bank.withdraw("ann", 0)
    assert bank.withdraw("ann", 1) == 99


def test_overdraft():
    bank = Ledger(50)
    bank.deposit("ann", 100)
    assert bank.withdraw("ann", 150) == -50
    with pytest.raises(ValueError):
        bank.withdraw("ann", 1)


def test_unknown_account():
    with pytest.raises(KeyError, match="bob"):
        Ledger(100).withdraw("bob", 5)


def test_transfer():
    bank = Ledger()
    bank.deposit("ann", 100)
    bank.transfer("ann", "bob", 30)
    assert bank.balances == {"ann": 70, "bob": 30}


def test_failed_transfer_moves_nothing():
    bank = Ledger()
    bank.deposit("ann", 100)
    with pytest.raises(ValueError):
        bank.transfer("ann", "bob", 101)
    with pytest.raises(ValueError, match="same"):
        bank.transfer("ann", "ann", 10)
    assert bank.balances == {"ann": 100}


def test_statement():
    bank = Ledger()
    bank.deposit("ann", 100)
    bank.deposit("bob", 7)
    bank.withdraw("ann", 20, 1)
    bank.transfer("ann", "bob", 9)
    assert bank.statement("ann") == [100, -21, -9]
    assert bank.statement("bob") == [7, 9]
    assert bank.statement("eve") == []
