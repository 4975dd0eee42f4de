import pytest
from ring_buffer import RingBuffer


def test_empty():
    ring = RingBuffer(3)
    assert ring.values() == []
    assert ring.count == 0


def test_push_below_size():
    ring = RingBuffer(3)
    assert ring.push("a") is None
    assert ring.push("b") is None
    assert ring.values() == ["a", "b"]


def test_overwrites_the_oldest():
    ring = RingBuffer(3)
    lost = [ring.push(n) for n in range(1, 6)]
    assert lost == [None, None, None, 1, 2]
    assert ring.values() == [3, 4, 5]
    assert ring.count == 3


def test_pop_is_first_in_first_out():
    ring = RingBuffer(3)
    for n in range(5):
        ring.push(n)
    assert [ring.pop(), ring.pop()] == [2, 3]
    assert ring.values() == [4]


def test_pop_then_push():
    ring = RingBuffer(2)
    ring.push(1)
    ring.push(2)
    assert ring.pop() == 1
    assert ring.push(3) is None
    assert ring.values() == [2, 3]


def test_pop_empty():
    ring = RingBuffer(2)
    with pytest.raises(IndexError):
        ring.pop()
    ring.push(1)
    ring.pop()
    with pytest.raises(IndexError):
        ring.pop()


def test_size_one():
    ring = RingBuffer(1)
    assert ring.push("x") is None
    assert ring.push("y") == "x"
    assert ring.pop() == "y"
    assert ring.values() == []


def test_bad_size():
    with pytest.raises(ValueError):
        RingBuffer(0)
    with pytest.raises(ValueError):
        RingBuffer(-2)


def test_wraps_many_times():
    ring = RingBuffer(4)
    for n in range(30):
        ring.push(n)
    assert ring.values() == [26, 27, 28, 29]
    assert ring.start == 2


def test_pop_wraps_start():
    ring = RingBuffer(2)
    for n in range(7):
        ring.push(n)
        assert ring.pop() == n
    assert ring.count == 0
    assert ring.start == 1
