import pytest
from dijkstra import cheapest_route, dijkstra


def test_direct_edge_wins():
    graph = {"s": {"t": 3, "m": 2}, "m": {"t": 2}}
    assert cheapest_route(graph, "s", "t") == (3, ["s", "t"])


def test_detour_wins():
    graph = {"s": {"t": 5, "m": 2}, "m": {"t": 2}}
    assert cheapest_route(graph, "s", "t") == (4, ["s", "m", "t"])
    assert dijkstra(graph, "s")["t"] == (4, "m")


def test_fractions():
    graph = {1: {2: 0.5, 3: 1.75}, 2: {3: 1.0}, 3: {4: 0.25}}
    assert cheapest_route(graph, 1, 4) == (1.75, [1, 2, 3, 4])


def test_negative_edge_further_away():
    with pytest.raises(ValueError):
        dijkstra({1: {2: 4}, 2: {3: -2}}, 1)
    with pytest.raises(ValueError):
        cheapest_route({1: {1: -5}}, 1, 1)


def test_edges_have_a_direction():
    graph = {1: {2: 1}}
    with pytest.raises(LookupError, match="cannot be reached"):
        cheapest_route(graph, 2, 1)
    assert dijkstra(graph, 2) == {2: (0, None)}


def test_grid_of_costs():
    cost = [[1, 9, 1], [1, 9, 1], [1, 1, 1]]
    graph = {}
    for y in range(3):
        for x in range(3):
            near = [(y + 1, x), (y - 1, x), (y, x + 1), (y, x - 1)]
            ok = [p for p in near if min(p) >= 0 and max(p) < 3]
            graph[y, x] = {p: cost[p[0]][p[1]] for p in ok}
    total, route = cheapest_route(graph, (0, 0), (0, 2))
    assert total == 6
    assert len(route) == 7
    assert (1, 1) not in route


def test_empty_graph():
    assert cheapest_route({}, 8, 8) == (0, [8])
    assert len(dijkstra({8: {9: 0, 8: 1}}, 8)) == 2
