from merge_sorted import common_sorted, merge_many, merge_sorted


def test_words():
    words = merge_sorted(["ant", "cow"], ["bee", "dog", "elk"])
    assert words == ["ant", "bee", "cow", "dog", "elk"]


def test_negative_and_repeated():
    assert merge_sorted([-5, -5, 0], [-5, 7]) == [-5, -5, -5, 0, 7]
    assert merge_sorted([8], [1, 8, 9]) == [1, 8, 8, 9]


def test_tie_order_in_the_middle():
    merged = merge_sorted([0, 4.0], [4, 5])
    assert [type(x) for x in merged] == [int, float, int, int]


def test_many_with_empty_lists():
    assert merge_many([[], [2], [], [1, 3], []]) == [1, 2, 3]
    assert merge_many([[], []]) == []


def test_many_long():
    lists = [list(range(start, 50, 5)) for start in (3, 0, 4, 1, 2)]
    assert merge_many(lists) == list(range(50))


def test_many_copies_its_only_list():
    given = [[4, 4]]
    merge_many(given).append(5)
    assert given == [[4, 4]]


def test_common_of_letters():
    assert common_sorted(list("aacfz"), list("acdz")) == ["a", "c", "z"]


def test_common_last_values():
    assert common_sorted([1, 9], [9]) == [9]
    assert common_sorted([9], [1, 9]) == [9]
    assert common_sorted([1, 9, 10], [1]) == [1]
