"""Capitalise headings the way most style guides ask for."""

SMALL = "a an and at by for in of on the to".split()


def capital(word: str) -> str:
    """Raise the first letter of word, also after each hyphen."""
    pieces = []
    for piece in word.split("-"):
        if piece.isupper():
            pieces.append(piece)
        else:
            pieces.append(piece[:1].upper() + piece[1:].lower())
    return "-".join(pieces)


def title_case(heading: str, small=SMALL) -> str:
    """Capitalise heading, but not the small words inside it."""
    words = heading.split()
    last = len(words) - 1
    for index, word in enumerate(words):
        inside = 0 < index < last
        if words[index - 1].endswith(":"):
            inside = False
        if inside and word.lower() in small:
            words[index] = word.lower()
            continue
        words[index] = capital(word)
    return " ".join(words)
