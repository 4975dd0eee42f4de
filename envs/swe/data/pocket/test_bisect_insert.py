from bisect_insert import contains, insert, left_index


def test_empty():
    assert left_index([], 5) == 0
    assert insert([], 5) == [5]


def test_first_of_equal():
    assert left_index([1, 2, 2, 2, 3], 2) == 1


def test_before_all():
    assert left_index([4, 5], 1) == 0


def test_after_all():
    assert left_index([4, 5], 9) == 2


def test_insert_middle():
    assert insert([1, 3, 5], 4) == [1, 3, 4, 5]


def test_insert_ends():
    assert insert([2, 3], 1) == [1, 2, 3]
    assert insert([2, 3], 9) == [2, 3, 9]


def test_contains():
    assert contains([1, 4, 9], 4)
    assert not contains([1, 4, 9], 5)


def test_contains_past_end():
    assert contains([1, 4, 9], 10) is False


def test_input_is_kept():
    items = [1, 2]
    insert(items, 0)
    assert items == [1, 2]
