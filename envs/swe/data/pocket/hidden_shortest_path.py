import pytest
from shortest_path import distances, shortest_path


def test_grid_walk():
    graph = {}
    for x in range(3):
        for y in range(3):
            near = [(x + 1, y), (x, y + 1)]
            graph[x, y] = [p for p in near if max(p) < 3]
    path = shortest_path(graph, (0, 0), (2, 2))
    assert len(path) == 5
    assert path[0] == (0, 0) and path[-1] == (2, 2)
    assert distances(graph, (0, 0))[2, 1] == 3


def test_first_listed_wins_a_tie():
    graph = {"s": ["y", "x"], "x": ["t"], "y": ["t"]}
    assert shortest_path(graph, "s", "t") == ["s", "y", "t"]


def test_one_way():
    graph = {1: [2], 2: []}
    assert shortest_path(graph, 2, 1) == []
    assert shortest_path(graph, 1, 2) == [1, 2]


def test_self_loop():
    graph = {1: [1, 2], 2: [2, 3], 3: []}
    assert shortest_path(graph, 1, 3) == [1, 2, 3]
    assert distances(graph, 2) == {2: 0, 3: 1}


def test_limit_two():
    chain = {n: [n + 1] for n in range(9)}
    assert distances(chain, 3, 2) == {3: 0, 4: 1, 5: 2}
    assert distances(chain, 3) == {n: n - 3 for n in range(3, 10)}


def test_start_must_be_listed():
    with pytest.raises(KeyError):
        distances({1: [2]}, 2)
    assert shortest_path({}, 4, 4) == [4]


def test_shortcut_is_used():
    graph = {"a": ["b"], "b": ["c", "e"], "c": ["d"], "d": ["e"], "e": []}
    assert shortest_path(graph, "a", "e") == ["a", "b", "e"]
    assert distances(graph, "a")["d"] == 3
