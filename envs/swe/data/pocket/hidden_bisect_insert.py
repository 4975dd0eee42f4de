from bisect_insert import contains, insert, left_index


def test_every_position():
    items = [0, 2, 4, 6, 8]
    assert [left_index(items, v) for v in (-1, 0, 1, 5, 8, 9)] == [0, 0, 1, 3, 4, 5]


def test_builds_a_sorted_list():
    items = []
    for value in [5, 1, 4, 1, 9]:
        items = insert(items, value)
    assert items == [1, 1, 4, 5, 9]


def test_all_equal():
    assert left_index([7, 7, 7], 7) == 0
    assert left_index([7, 7, 7], 8) == 3


def test_contains_ends():
    assert contains(["a", "c"], "a") is True
    assert contains(["a", "c"], "c") is True


def test_contains_nothing():
    assert contains([], 1) is False


def test_words():
    assert insert(["ant", "cat"], "bee") == ["ant", "bee", "cat"]
