import pytest
from dijkstra import cheapest_route, dijkstra

GRAPH = {
    "a": {"b": 7, "c": 2},
    "b": {"d": 1},
    "c": {"b": 3, "d": 8},
    "d": {"e": 4},
    "x": {"a": 1},
}


def test_costs():
    costs = {node: found[0] for node, found in dijkstra(GRAPH, "a").items()}
    assert costs == {"a": 0, "b": 5, "c": 2, "d": 6, "e": 10}


def test_previous_nodes():
    table = dijkstra(GRAPH, "a")
    assert table["a"] == (0, None)
    assert table["b"] == (5, "c")
    assert table["d"] == (6, "b")


def test_route():
    assert cheapest_route(GRAPH, "a", "e") == (10, list("acbde"))
    assert cheapest_route(GRAPH, "x", "c") == (3, ["x", "a", "c"])


def test_route_to_itself():
    assert cheapest_route(GRAPH, "b", "b") == (0, ["b"])


def test_unreachable():
    with pytest.raises(LookupError, match="cannot be reached"):
        cheapest_route(GRAPH, "a", "x")


def test_negative_weight():
    with pytest.raises(ValueError):
        dijkstra({1: {2: -1}}, 1)


def test_zero_weight():
    assert cheapest_route({1: {2: 0}, 2: {3: 0}}, 1, 3) == (0, [1, 2, 3])


def test_unknown_start_stands_alone():
    assert dijkstra(GRAPH, "q") == {"q": (0, None)}


def test_cycle():
    ring = {1: {2: 5}, 2: {3: 5, 1: 1}, 3: {1: 5}}
    assert cheapest_route(ring, 2, 1) == (1, [2, 1])
    assert cheapest_route(ring, 3, 2) == (10, [3, 1, 2])


def test_many_cheap_steps_win():
    graph = {0: {1: 1, 4: 5}, 1: {2: 1}, 2: {3: 1}, 3: {4: 1}}
    assert cheapest_route(graph, 0, 4) == (4, [0, 1, 2, 3, 4])
