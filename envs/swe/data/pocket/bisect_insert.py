"""Binary search and insertion in a sorted list."""


def left_index(items, value):
    low = 0
    high = len(items)
    while low < high:
        middle = (low + high) // 2
        if items[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


def insert(items, value):
    index = left_index(items, value)
    return items[:index] + [value] + items[index:]


def contains(items, value):
    spot = left_index(items, value)
    return spot < len(items) and items[spot] == value
