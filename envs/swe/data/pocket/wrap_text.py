"""Greedy wrapping of words into lines of bounded width."""


def chop(word: str, width: int) -> list:
    """Cut a word that is too long into pieces of width letters."""
    pieces = []
    for start in range(0, len(word), width):
        pieces.append(word[start:start + width])
    return pieces


def wrap_text(text: str, width: int, indent: int = 0) -> list:
    """Lines of at most width; all but the first are indented."""
    if width < 1 or indent < 0 or indent >= width:
        raise ValueError("width and indent do not fit")
    pad = " " * indent
    lines = []
    line = ""
    for word in text.split():
        for piece in chop(word, width - indent):
            if line.strip() == "":
                line += piece
            elif len(line) + 1 + len(piece) <= width:
                line = line + " " + piece
            else:
                lines.append(line)
                line = pad + piece
    if line:
        lines.append(line)
    return lines
