import pytest
from clamp_scale import clamp, scale, wrap


def test_clamp_inside():
    assert clamp(5, 1, 10) == 5
    assert clamp(1.5, 1, 2) == 1.5


def test_clamp_outside():
    assert clamp(-3, 1, 10) == 1
    assert clamp(12, 1, 10) == 10


def test_clamp_narrow():
    assert clamp(7, 4, 4) == 4
    assert clamp(2, 4, 4) == 4
    with pytest.raises(ValueError):
        clamp(5, 6, 4)


def test_scale_middle():
    assert scale(5, (0, 10), (0, 100)) == 50
    assert scale(3, (2, 6), (10, 30)) == 15


def test_scale_reversed_target():
    assert scale(1, (0, 4), (8, 0)) == 6
    assert scale(3, (4, 0), (0, 8)) == 2


def test_scale_outside():
    assert scale(20, (0, 10), (0, 5)) == 10
    assert scale(-2, (0, 4), (1, 3)) == 0


def test_scale_clip():
    assert scale(20, (0, 10), (0, 5), True) == 5
    assert scale(-2, (0, 4), (1, 3), clip=True) == 1
    assert scale(5, (0, 10), (0, 5), True) == 2.5


def test_scale_empty_source():
    with pytest.raises(ZeroDivisionError, match="empty"):
        scale(1, (3, 3), (0, 1))


def test_wrap():
    assert wrap(370, 0, 360) == 10
    assert wrap(-190, -180, 180) == 170
    assert wrap(5, 2, 9) == 5


def test_wrap_edges():
    assert wrap(9, 2, 9) == 2
    assert wrap(2, 2, 9) == 2
    assert wrap(1, 2, 9) == 8
