"""Connected parts of an undirected graph."""


def connected_parts(nodes, links) -> list:
    """Sorted lists of connected nodes, the largest list first."""
    label = {node: node for node in nodes}
    for one, two in links:
        if one not in label or two not in label:
            raise ValueError("a link names an unknown node")
        old, new = label[two], label[one]
        for node in label:
            if label[node] == old:
                label[node] = new
    parts = {}
    for node, name in label.items():
        parts.setdefault(name, []).append(node)
    found = [sorted(part) for part in parts.values()]
    return sorted(found, key=lambda part: (-len(part), part))


def is_connected(nodes, links) -> bool:
    return len(connected_parts(nodes, links)) <= 1


def weak_links(nodes, links) -> list:
    """Links whose removal splits a part in two."""
    weak = []
    whole = len(connected_parts(nodes, links))
    for index, link in enumerate(links):
        rest = links[:index] + links[index + 1:]
        if len(connected_parts(nodes, rest)) > whole:
            weak.append(link)
    return weak
