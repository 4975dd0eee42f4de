from merge_sorted import common_sorted, merge_many, merge_sorted


def test_interleaves():
    assert merge_sorted([1, 4, 6], [2, 3, 9]) == [1, 2, 3, 4, 6, 9]


def test_one_side_empty():
    assert merge_sorted([], [1, 2]) == [1, 2]
    assert merge_sorted([1, 2], []) == [1, 2]
    assert merge_sorted([], []) == []


def test_leftovers_on_each_side():
    assert merge_sorted([1], [2, 3, 4]) == [1, 2, 3, 4]
    assert merge_sorted([5, 6, 7], [2, 3]) == [2, 3, 5, 6, 7]


def test_ties_take_left_first():
    merged = merge_sorted([1, 2], [1.0, 2.0])
    assert [type(x) for x in merged] == [int, float, int, float]


def test_inputs_stay():
    left, right = [1, 3], [2, 4]
    assert merge_sorted(left, right) == [1, 2, 3, 4]
    assert (left, right) == ([1, 3], [2, 4])


def test_many():
    assert merge_many([[3], [1, 5], [2, 4]]) == [1, 2, 3, 4, 5]
    assert merge_many([[1], [0], [9], [4]]) == [0, 1, 4, 9]


def test_many_trivial():
    only = [1, 2]
    assert merge_many([]) == []
    assert merge_many([only]) == [1, 2]
    assert merge_many([only]) is not only


def test_many_is_stable():
    merged = merge_many([[1], [1.0], [True]])
    assert [type(x) for x in merged] == [int, float, bool]


def test_common():
    assert common_sorted([1, 3, 5, 7], [3, 4, 7, 8]) == [3, 7]
    assert common_sorted([1, 2], [3, 4]) == []
    assert common_sorted([5, 6], [1, 2]) == []


def test_common_reports_once():
    assert common_sorted([2, 2, 3, 3], [2, 2, 2, 3]) == [2, 3]
    assert common_sorted([2, 2], [2]) == [2]


def test_common_empty():
    assert common_sorted([], [1]) == []
    assert common_sorted([1], []) == []
