"""Cheapest routes in a graph with weighted edges."""
from heapq import heappop, heappush


def dijkstra(graph: dict, start) -> dict:
    """Map each reachable node to its (cost, previous node)."""
    settled = {}
    heap = [(0, start, None)]
    while heap:
        cost, node, previous = heappop(heap)
        if node in settled:
            continue
        settled[node] = (cost, previous)
        for neighbour, weight in graph.get(node, {}).items():
            if weight < 0:
                raise ValueError("weights must not be negative")
            if neighbour not in settled:
                heappush(heap, (cost + weight, neighbour, node))
    return settled


def cheapest_route(graph: dict, start, goal) -> tuple:
    """Cost and nodes of the cheapest way from start to goal."""
    table = dijkstra(graph, start)
    if goal not in table:
        raise LookupError(f"{goal} cannot be reached")
    route, here = [], goal
    while here != start:
        route.append(here)
        here = table[here][1]
    route.append(start)
    return table[goal][0], route[::-1]
