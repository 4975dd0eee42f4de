import pytest
from clamp_scale import clamp, scale, wrap


def test_clamp_edges():
    assert clamp(10, 1, 10) == 10
    assert clamp(1, 1, 10) == 1
    assert clamp(0, -5, -2) == -2
    assert clamp(-9, -5, -2) == -5


def test_clamp_bad_range():
    with pytest.raises(ValueError):
        clamp(0, 1, 0)
    assert clamp(0, 0, 0) == 0


def test_scale_ends():
    assert scale(-1, (-1, 1), (20, 40)) == 20
    assert scale(1, (-1, 1), (20, 40)) == 40
    assert scale(0, (-1, 1), (20, 40)) == 30


def test_scale_temperature():
    assert scale(25, (0, 100), (32, 212)) == 77
    assert scale(50, (32, 212), (0, 100)) == pytest.approx(10)


def test_scale_clipping_both_ends():
    assert scale(-40, (0, 100), (32, 212), True) == 32
    assert scale(140, (0, 100), (32, 212), True) == 212
    assert scale(140, (0, 100), (32, 212)) == 284


def test_scale_needs_range():
    with pytest.raises(ZeroDivisionError, match="source"):
        scale(0, (0, 0), (5, 6))


def test_wrap_hours():
    assert wrap(25, 0, 24) == 1
    assert wrap(-1, 0, 24) == 23
    assert wrap(13, 1, 13) == 1
    assert wrap(40, 10, 20) == 10
