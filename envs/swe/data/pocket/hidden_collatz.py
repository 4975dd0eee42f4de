import pytest
from collatz import chain, longest_start


def test_known_chains():
    assert chain(5) == [5, 16, 8, 4, 2, 1]
    assert chain(12) == [12, 6, 3, 10, 5, 16, 8, 4, 2, 1]
    assert chain(4) == [4, 2, 1]


def test_every_chain_ends_in_one():
    for start in range(1, 40):
        numbers = chain(start)
        assert numbers[0] == start
        assert numbers[-1] == 1
        assert numbers.count(1) == 1


def test_steps_follow_rule():
    numbers = chain(31)
    for left, right in zip(numbers, numbers[1:]):
        assert right in (left // 2, 3 * left + 1)
        assert (right > left) == (left % 2 == 1)


def test_cut_chains():
    assert chain(7, 4) == [7, 22, 11, 34, 17]
    assert chain(16, 1) == [16, 8]
    assert len(chain(2**499)) == 500
    assert len(chain(2**501)) == 501


def test_start_refused():
    for start in (0, -1, -27):
        with pytest.raises(ValueError):
            chain(start)


def test_longest_in_ranges():
    assert longest_start(1, 2) == 2
    assert longest_start(1, 20) == 18
    assert longest_start(18, 19) == 18
    assert longest_start(9, 4) is None
