"""Stretch one line of words to an exact width."""


def gaps(count: int, spaces: int) -> list:
    """Share spaces out over count gaps, the wider ones first."""
    each, extra = divmod(spaces, count)
    sizes = []
    for index in range(count):
        size = each + 1 if index < extra else each
        sizes.append(size)
    return sizes


def justify_line(line: str, width: int, last: bool = False) -> str:
    """Pad line to width; the last line is only filled at its end."""
    words = line.split()
    letters = sum(len(word) for word in words)
    spaces = width - letters
    if spaces < len(words) - 1:
        raise ValueError("the words are wider than the line")
    if last or len(words) < 2:
        return " ".join(words).ljust(width)
    result = words[0]
    sizes = gaps(len(words) - 1, spaces)
    for size, word in zip(sizes, words[1:]):
        result += " " * size + word
    return result
