from zip_longest_fill import pad_rows, round_robin, zip_longest_fill


def test_same_length():
    assert zip_longest_fill([1, 2], "ab") == [(1, "a"), (2, "b")]


def test_fill_is_none():
    assert zip_longest_fill([1, 2], [3]) == [(1, 3), (2, None)]
    assert zip_longest_fill([], [3]) == [(None, 3)]


def test_other_fill():
    zipped = zip_longest_fill([1], [2, 3, 4], fill=0)
    assert zipped == [(1, 2), (0, 3), (0, 4)]


def test_three_rows():
    zipped = zip_longest_fill("abc", "d", "ef", fill="-")
    assert zipped == [("a", "d", "e"), ("b", "-", "f"), ("c", "-", "-")]


def test_no_rows():
    assert zip_longest_fill() == []
    assert zip_longest_fill([], []) == []
    assert round_robin() == []


def test_round_robin():
    assert round_robin([1, 2, 3], [10], [20, 30]) == [1, 10, 20, 2, 30, 3]
    assert "".join(round_robin("ace", "bd")) == "abcde"


def test_round_robin_keeps_none():
    assert round_robin([None, 1], [None]) == [None, None, 1]


def test_pad():
    assert pad_rows([[1], [2, 3]], 0) == [[1, 0], [2, 3]]
    assert pad_rows([["a", "b"], []]) == [["a", "b"], ["", ""]]


def test_pad_least():
    assert pad_rows([[]]) == [[""]]
    assert pad_rows([[1]], 9, 3) == [[1, 9, 9]]
    assert pad_rows([[1, 2, 3, 4]], 9, 3) == [[1, 2, 3, 4]]


def test_pad_copies():
    rows = [[1]]
    pad_rows(rows)[0].append(2)
    assert rows == [[1]]
