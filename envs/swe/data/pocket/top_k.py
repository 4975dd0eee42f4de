"""Largest items and their ranks."""


def top_k(items, k):
    if k < 0:
        raise ValueError("k is negative")
    best = []
    for item in items:
        position = 0
        while position < len(best) and best[position] >= item:
            position += 1
        best.insert(position, item)
        if len(best) > k:
            best.pop()
    return best


def rank(items, value):
    higher = 0
    for other in items:
        if other > value:
            higher += 1
    return higher + 1


def kth_largest(items, k):
    if k < 1 or k > len(items):
        raise IndexError("no such rank")
    return top_k(items, k)[-1]
