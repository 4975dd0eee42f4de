import pytest
from grid_flood import grid_flood, region, region_sizes


def test_spiral():
    grid = ["#####", "....#", "###.#", "#...#", "#####"]
    assert len(region(grid, 0, 0)) == 17
    assert len(region(grid, 1, 0)) == 8


def test_whole_grid():
    assert grid_flood(["xx", "xx"], 1, 1, "y") == ["yy", "yy"]
    assert len(region(["xxx"] * 4, 3, 2)) == 12


def test_paint_meets_equal_neighbour():
    assert grid_flood(["ab", "ba"], 0, 0, "b") == ["bb", "ba"]


def test_single_cells():
    assert region(["q"], 0, 0) == {(0, 0)}
    assert grid_flood(["ab.", "..c"], 1, 2, "-") == ["ab.", "..-"]


def test_column_and_row():
    assert region(["#", "#", ".", "#"], 1, 0) == {(0, 0), (1, 0)}
    assert region(["..##.#"], 0, 3) == {(0, 2), (0, 3)}


def test_start_off_grid():
    with pytest.raises(IndexError):
        grid_flood(["ab"], 0, 2, "z")


def test_sizes_are_sorted():
    grid = ["#.##.###", "........", "####.#.#"]
    assert region_sizes(grid) == [4, 3, 2, 1, 1, 1]
    assert region_sizes(["aabba", "bbaaa"], "a") == [4, 2]
    assert region_sizes(["aab"], "b") == [1]
