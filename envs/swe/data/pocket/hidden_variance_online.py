import pytest
from variance_online import RunningStats


def push_all(values):
    stats = RunningStats()
    for value in values:
        stats.push(value)
    return stats


def test_negative_values():
    stats = push_all([-3, 0, 3])
    assert stats.mean == 0
    assert stats.variance() == 9
    assert stats.variance(False) == 6


def test_constant_values():
    stats = push_all([4, 4, 4, 4])
    assert stats.mean == 4
    assert stats.variance() == 0


def test_against_definition():
    values = [12, 5, 7.5, 30, -2, 8]
    mean = sum(values) / len(values)
    squares = sum((value - mean) ** 2 for value in values)
    stats = push_all(values)
    assert stats.mean == pytest.approx(mean)
    assert stats.variance() == pytest.approx(squares / 5)
    assert stats.variance(False) == pytest.approx(squares / 6)


def test_not_enough():
    with pytest.raises(ValueError):
        push_all([]).variance()
    with pytest.raises(ValueError):
        push_all([1]).variance(sample=True)


def test_merge_is_like_pushing_all():
    for cut in range(7):
        values = [3, 1, 4, 1, 5, 9]
        both = push_all(values[:cut]).merge(push_all(values[cut:]))
        whole = push_all(values)
        assert both.count == 6
        assert both.mean == pytest.approx(whole.mean)
        assert both.variance() == pytest.approx(whole.variance())


def test_push_after_merge():
    both = push_all([0, 2]).merge(push_all([4]))
    both.push(6)
    assert both.mean == 3
    assert both.variance(False) == 5
