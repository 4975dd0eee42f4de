"""Fewest steps between the nodes of an unweighted graph."""


def distances(graph: dict, start, limit: int = 100) -> dict:
    """Steps from start to each node within limit steps."""
    if start not in graph:
        raise KeyError(start)
    steps = {start: 0}
    queue = [start]
    for node in queue:
        if steps[node] == limit:
            break
        for neighbour in graph.get(node, []):
            if neighbour not in steps:
                steps[neighbour] = steps[node] + 1
                queue.append(neighbour)
    return steps


def shortest_path(graph: dict, start, goal) -> list:
    """Nodes from start to goal, or an empty list."""
    parent = {start: None}
    waiting = [start]
    while waiting and goal not in parent:
        here = waiting.pop(0)
        for there in graph.get(here, []):
            if there not in parent:
                parent[there] = here
                waiting.append(there)
    if goal not in parent:
        return []
    path = [goal]
    while path[-1] != start:
        path.append(parent[path[-1]])
    return path[::-1]
