import pytest
from ring_buffer import RingBuffer


def test_values_is_a_copy():
    ring = RingBuffer(2)
    ring.push(1)
    ring.values().append(9)
    assert ring.values() == [1]


def test_lost_values_come_in_order():
    ring = RingBuffer(2)
    lost = "".join(ring.push(c) or "-" for c in "abcdef")
    assert lost == "--abcd"
    assert ring.values() == ["e", "f"]


def test_like_a_list():
    ring, model = RingBuffer(3), []
    for step in range(25):
        if step % 4 == 3:
            assert ring.pop() == model.pop(0)
        else:
            ring.push(step)
            model = [*model, step][-3:]
        assert ring.values() == model
        assert ring.count == len(model)


def test_pop_clears_the_slot():
    ring = RingBuffer(3)
    ring.push("a")
    ring.pop()
    assert ring.slots == [None, None, None]
    assert ring.push("b") is None
    assert ring.push("c") is None
    assert ring.push("d") is None
    assert ring.push("e") == "b"


def test_drain():
    ring = RingBuffer(4)
    for n in range(6):
        ring.push(n)
    assert [ring.pop() for _ in range(4)] == [2, 3, 4, 5]
    with pytest.raises(IndexError):
        ring.pop()
    assert ring.values() == []


def test_smallest_size():
    ring = RingBuffer(1)
    assert [ring.push(n) for n in (7, 8, 9)] == [None, 7, 8]
    with pytest.raises(ValueError):
        RingBuffer(-1)
    with pytest.raises(ValueError):
        RingBuffer(0)
