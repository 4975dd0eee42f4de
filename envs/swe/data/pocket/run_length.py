"""Run-length coding of text: 'aaab' becomes '3ab'."""


def encode(text: str) -> str:
    """Write each run as its length (if above 1) and its letter."""
    packed = ""
    start = 0
    for index in range(1, len(text) + 1):
        if text[start].isdigit():
            raise ValueError("digits cannot be encoded")
        if index < len(text) and text[index] == text[start]:
            continue
        length = index - start
        if length > 1:
            packed += str(length)
        packed += text[start]
        start = index
    return packed


def decode(packed: str) -> str:
    """Undo encode; a count must be followed by a letter."""
    pieces, count = [], 0
    for char in packed:
        if char.isdigit():
            count = count * 10 + int(char)
        else:
            pieces.append(char * max(count, 1))
            count = 0
    if count != 0:
        raise ValueError("count without a letter")
    return "".join(pieces)
