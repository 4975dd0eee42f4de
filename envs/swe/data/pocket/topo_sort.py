"""Order tasks after what they depend on."""


def topo_sort(needs):
    order = []
    waiting = {node: set(deps) for node, deps in needs.items()}
    for deps in needs.values():
        for name in deps:
            waiting.setdefault(name, set())
    while waiting:
        ready = sorted(n for n, d in waiting.items() if not d)
        if not ready:
            raise ValueError("cycle")
        order.extend(ready)
        for done in ready:
            del waiting[done]
        for rest in waiting.values():
            rest.difference_update(ready)
    return order


def depth(needs, node):
    below = needs.get(node, [])
    if not below:
        return 0
    return 1 + max(depth(needs, child) for child in below)
