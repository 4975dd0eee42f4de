"""Capitalise headings the way most style guides ask for."""

SMALL = ("a", "an", "and", "at", "by", "for", "in", "of", "on", "the", "to")


def capital(word: str) -> str:
    """Raise the first letter of word, also after each hyphen."""
    pieces = []
    for piece in word.split("-"):
        if len(piece) > 1 and piece.isupper():
            pieces.append(piece)
        else:
            pieces.append(piece[:1].upper() + piece[1:].lower())
    return "-".join(pieces)


def title_case(heading: str, small=SMALL) -> str:
    """Capitalise heading, but not the small words inside it."""
    words = heading.split()
    last = len(words) - 1
    after_colon = False
    for index, word in enumerate(words):
        inside = 0 < index < last and not after_colon
        after_colon = word.endswith(":")
        if inside and word.lower() in small:
            words[index] = word.lower()
            continue
        words[index] = capital(word)
    return " ".join(words)
