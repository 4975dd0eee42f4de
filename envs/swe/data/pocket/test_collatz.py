import pytest
from collatz import chain, longest_start


def test_one():
    assert chain(1) == [1]


def test_powers_of_two():
    assert chain(2) == [2, 1]
    assert chain(8) == [8, 4, 2, 1]


def test_odd_start():
    assert chain(3) == [3, 10, 5, 16, 8, 4, 2, 1]
    assert chain(6)[:3] == [6, 3, 10]


def test_longer_chain():
    numbers = chain(27)
    assert len(numbers) == 112
    assert max(numbers) == 9232


def test_limit_counts_steps():
    assert chain(8, 2) == [8, 4, 2]
    assert chain(8, 3) == [8, 4, 2, 1]
    assert chain(5, 0) == [5]
    assert chain(2**60 + 2, 1)[1] == 2**59 + 1


def test_default_limit():
    assert len(chain(2**600)) == 501


def test_bad_start():
    with pytest.raises(ValueError):
        chain(0)
    with pytest.raises(ValueError):
        chain(-4)


def test_longest():
    assert longest_start(1, 10) == 9
    assert longest_start(1, 8) == 7
    assert longest_start(10, 30) == 27
    assert longest_start(30, 60) == 54


def test_longest_bounds():
    assert longest_start(5, 5) == 5
    assert longest_start(8, 9) == 9
    assert longest_start(9, 10) == 9
    assert longest_start(3, 2) is None


def test_longest_tie_takes_smallest():
    assert len(chain(12)) == len(chain(13)) == 10
    assert longest_start(12, 13) == 12
