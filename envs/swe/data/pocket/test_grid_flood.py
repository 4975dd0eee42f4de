import pytest
from grid_flood import grid_flood, region, region_sizes

MAP = [
    "##..#",
    "#..##",
    "..#..",
    "#...#",
]


def test_region():
    assert region(MAP, 0, 0) == {(0, 0), (0, 1), (1, 0)}
    assert region(MAP, 1, 4) == {(0, 4), (1, 4), (1, 3)}


def test_diagonal_does_not_join():
    assert region(MAP, 2, 2) == {(2, 2)}


def test_all_four_directions():
    cross = [".#.", "###", ".#."]
    cells = {(0, 1), (1, 0), (1, 1), (1, 2), (2, 1)}
    assert region(cross, 1, 1) == cells
    assert region(cross, 2, 1) == cells


def test_borders_do_not_wrap():
    assert region(["#.#"], 0, 0) == {(0, 0)}
    assert region(["#", ".", "#"], 0, 0) == {(0, 0)}


def test_flood():
    assert grid_flood(MAP, 0, 1, "o") == ["oo..#", "o..##", "..#..", "#...#"]
    assert grid_flood(["aab"], 0, 2, "c") == ["aac"]


def test_flood_with_same_value():
    assert grid_flood(["##", ".#"], 0, 0, "#") == ["##", ".#"]


def test_flood_keeps_input():
    grid = ["ab"]
    assert grid_flood(grid, 0, 0, "z") == ["zb"]
    assert grid == ["ab"]


def test_outside():
    with pytest.raises(IndexError):
        region(["ab"], 1, 0)


def test_sizes():
    assert region_sizes(MAP) == [3, 3, 1, 1, 1]
    assert region_sizes(MAP, ".") == [11]


def test_sizes_of_nothing():
    assert region_sizes([]) == []
    assert region_sizes(["...", "..."]) == []


def test_ragged_rows():
    assert region(["#", "##", "#"], 1, 1) == {(0, 0), (1, 0), (1, 1), (2, 0)}
