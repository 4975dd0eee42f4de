"""Merging and intersecting lists that are sorted already."""


def merge_sorted(left: list, right: list) -> list:
    """One sorted list; on ties the item of left comes first."""
    merged, i, j = [], 0, 0
    while i < len(left) and j < len(right):
        if right[j] < left[i]:
            merged.append(right[j])
            j += 1
        else:
            merged.append(left[i])
            i += 1
    merged.extend(left[i:])
    return merged + right[j:]


def merge_many(lists: list) -> list:
    """Merge any number of sorted lists, halving the work."""
    if not lists:
        return []
    if len(lists) == 1:
        return list(lists[0])
    middle = len(lists) // 2
    front = merge_many(lists[:middle])
    return merge_sorted(front, merge_many(lists[middle:]))


def common_sorted(left: list, right: list) -> list:
    """Values in both sorted lists, each reported once."""
    shared, at = [], 0
    for value in left:
        while at < len(right) and right[at] < value:
            at += 1
        if at == len(right):
            break
        if right[at] == value and shared[-1:] != [value]:
            shared.append(value)
    return shared
