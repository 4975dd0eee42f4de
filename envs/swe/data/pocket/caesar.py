"""Caesar cipher over the English alphabet."""

ALPHABET = "abcdefghijklmnopqrstuvwxyz"


def encode(text: str, key: int) -> str:
    """Shift every English letter of text by key places."""
    result = []
    for char in text:
        place = ALPHABET.find(char.lower())
        if place < 0:
            result.append(char)
            continue
        moved = ALPHABET[(place + key) % 26]
        if char.isupper():
            moved = moved.upper()
        result.append(moved)
    return "".join(result)


def decode(text: str, key: int) -> str:
    """Undo encode with the same key."""
    return encode(text, -key)


def find_key(secret: str, word: str) -> int:
    """Smallest key under which the plain text contains word."""
    for key in range(26):
        plain = decode(secret, key)
        if word in plain:
            return key
    raise ValueError("no key shows the word")
