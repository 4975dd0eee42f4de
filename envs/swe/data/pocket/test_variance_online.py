import pytest
from variance_online import RunningStats


def filled(*values):
    stats = RunningStats()
    for value in values:
        stats.push(value)
    return stats


def test_empty():
    stats = RunningStats()
    assert stats.count == 0
    assert stats.mean == 0


def test_mean():
    assert filled(2, 4, 9).mean == 5
    assert filled(7).mean == 7
    assert filled(2, 4, 9).count == 3


def test_sample_variance():
    assert filled(1, 3).variance() == 2
    assert filled(2, 4, 9).variance() == 13
    assert filled(1, 2).variance() == 0.5


def test_population_variance():
    assert filled(1, 3).variance(False) == 1
    assert filled(2, 4, 4, 6).variance(sample=False) == 2
    assert filled(5).variance(False) == 0


def test_too_few_values():
    with pytest.raises(ValueError):
        filled(5).variance()
    with pytest.raises(ValueError):
        filled().variance(False)


def test_merge():
    both = filled(1, 3).merge(filled(5, 7, 9))
    assert both.count == 5
    assert both.mean == 5
    assert both.variance(False) == 8


def test_merge_equal_means():
    both = filled(1, 5).merge(filled(2, 4))
    assert filled(1).merge(filled(2)).mean == 1.5
    assert both.mean == 3
    assert both.squares == 10


def test_merge_leaves_parts_alone():
    left, right = filled(1, 3), filled(11)
    assert left.merge(right).mean == 5
    assert (left.count, left.mean) == (2, 2)
    assert (right.count, right.mean) == (1, 11)


def test_merge_with_empty():
    assert filled(4, 8).merge(filled()).variance() == 8
    assert filled().merge(filled(4, 8)).mean == 6
    assert filled().merge(filled()).count == 0
