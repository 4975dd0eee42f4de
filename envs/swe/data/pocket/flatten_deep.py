"""Flattening nested lists and nested dictionaries."""


def flatten_deep(items, depth: int = 50) -> list:
    """Unpack lists and tuples, at most depth levels of them."""
    if depth < 0:
        raise ValueError("depth must not be negative")
    flat = []
    for item in items:
        if isinstance(item, (list, tuple)) and depth > 0:
            flat.extend(flatten_deep(item, depth - 1))
        else:
            flat.append(item)
    return flat


def nesting(value) -> int:
    """Levels of lists or tuples around the deepest item."""
    if not isinstance(value, (list, tuple)):
        return 0
    deepest = 0
    for inner in value:
        deepest = max(deepest, nesting(inner))
    return deepest + 1


def flatten_keys(tree: dict, separator=".", prefix="") -> dict:
    """One flat dictionary whose keys are joined paths."""
    found = {}
    for key, value in tree.items():
        path = prefix + separator + key if prefix else key
        if isinstance(value, dict) and value:
            found.update(flatten_keys(value, separator, path))
            continue
        found[path] = value
    return found
