"""Greedy wrapping of words into lines of bounded width."""


def chop(word: str, width: int) -> list:
    """Cut a word that is too long into pieces of width letters."""
    pieces = []
    for start in range(0, len(word), width):
        pieces.append(word[start:start + width])
    return pieces


def wrap_text(text: str, width: int, prefix: str = "") -> list:
    """Lines of at most width characters, each after prefix."""
    room = width - len(prefix)
    if room < 1:
        raise ValueError("no room for letters")
    lines, line = [], ""
    for word in text.split():
        for piece in chop(word, room):
            if line and len(line) + 1 + len(piece) > room:
                lines.append(prefix + line)
                line = ""
            line = line + " " + piece if line else piece
    if line:
        lines += [prefix + line]
    return lines
