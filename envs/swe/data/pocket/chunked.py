"""Cut sequences into chunks and windows."""


def chunk(items, size):
    if size < 1:
        raise ValueError("size must be positive")
    pieces = []
    for start in range(0, len(items), size):
        pieces.append(items[start:start + size])
    return pieces


def windows(items, width):
    if width < 1:
        raise ValueError("width must be positive")
    count = len(items) - width + 1
    return [items[i:i + width] for i in range(count)]


def pad_last(pieces, size, fill):
    if pieces:
        missing = size - len(pieces[-1])
        pieces[-1] = pieces[-1] + [fill] * missing
    return pieces
