"""Rotate, interleave and split sequences."""


def rotate(items, steps):
    if not items:
        return []
    shift = steps % len(items)
    return items[-shift:] + items[:-shift] if shift else list(items)


def interleave(first, second):
    mixed = []
    for left, right in zip(first, second):
        mixed.append(left)
        mixed.append(right)
    shared = min(len(first), len(second))
    return mixed + first[shared:] + second[shared:]


def split_at(items, index):
    if index < 0:
        raise IndexError("negative index")
    return items[:index], items[index:]
