import pytest
from shortest_path import distances, shortest_path

ROADS = {
    "a": ["b", "c"],
    "b": ["d"],
    "c": ["d", "e"],
    "d": ["f"],
    "e": ["f"],
    "f": [],
    "z": ["a"],
}


def test_direct_neighbour():
    assert shortest_path(ROADS, "a", "b") == ["a", "b"]


def test_longer_path():
    assert shortest_path(ROADS, "a", "f") == ["a", "b", "d", "f"]
    assert shortest_path(ROADS, "z", "e") == ["z", "a", "c", "e"]


def test_start_is_goal():
    assert shortest_path(ROADS, "d", "d") == ["d"]


def test_no_path():
    assert shortest_path(ROADS, "f", "a") == []
    assert shortest_path(ROADS, "a", "z") == []


def test_prefers_fewer_steps():
    graph = {1: [2, 4], 2: [3], 3: [4], 4: [5], 5: []}
    assert shortest_path(graph, 1, 5) == [1, 4, 5]


def test_cycle():
    ring = {0: [1], 1: [2], 2: [0]}
    assert shortest_path(ring, 1, 0) == [1, 2, 0]
    assert shortest_path(ring, 1, 9) == []


def test_distances():
    found = distances(ROADS, "a")
    assert found == {"a": 0, "b": 1, "c": 1, "d": 2, "e": 2, "f": 3}


def test_distances_limit():
    assert distances(ROADS, "a", 1) == {"a": 0, "b": 1, "c": 1}
    assert distances(ROADS, "a", 0) == {"a": 0}


def test_distances_unknown_start():
    with pytest.raises(KeyError):
        distances(ROADS, "q")


def test_neighbour_without_own_entry():
    assert distances({1: [2]}, 1) == {1: 0, 2: 1}
    assert shortest_path({1: [2]}, 1, 3) == []


def test_default_limit():
    chain = {n: [n + 1] for n in range(200)}
    assert len(distances(chain, 0)) == 101
