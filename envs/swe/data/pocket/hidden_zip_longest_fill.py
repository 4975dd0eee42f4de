from zip_longest_fill import pad_rows, round_robin, zip_longest_fill


def test_single_row():
    assert zip_longest_fill([7, 8]) == [(7,), (8,)]


def test_longest_in_the_middle():
    zipped = zip_longest_fill((1,), (2, 3), (), fill=-1)
    assert zipped == [(1, 2, -1), (-1, 3, -1)]


def test_falsy_values_are_kept():
    assert zip_longest_fill([0, ""], [False], fill=9) == [(0, False), ("", 9)]


def test_longest_first():
    assert zip_longest_fill("xyz", "") == [
        ("x", None),
        ("y", None),
        ("z", None),
    ]


def test_robin_with_empty_rows():
    assert round_robin([], [1, 2], []) == [1, 2]
    assert round_robin([0], [False, None], "pqr") == [
        0,
        False,
        "p",
        None,
        "q",
        "r",
    ]


def test_pad_three_rows():
    rows = ["ab", "c", "def"]
    assert ["".join(r) for r in pad_rows(rows, ".")] == ["ab.", "c..", "def"]


def test_pad_to_least():
    assert pad_rows([[], [5]], None, 2) == [[None, None], [5, None]]
    assert pad_rows([[], []], 1) == [[1], [1]]
    assert pad_rows([], 0, 4) == []
    assert pad_rows([[]], 0, 0) == [[]]
