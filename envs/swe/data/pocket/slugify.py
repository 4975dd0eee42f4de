"""Turn free text into short lowercase names for addresses."""


def slugify(text: str, separator: str = "-", limit: int = 40) -> str:
    """Join the ASCII words of text, dropping words past limit."""
    words, current = [], ""
    for char in text.lower() + " ":
        if char.isascii() and char.isalnum():
            current += char
        elif char != "'" and current:
            words.append(current)
            current = ""
    slug = ""
    for word in words:
        longer = slug + separator + word if slug else word[:limit]
        if len(longer) > limit:
            break
        slug = longer
    return slug


def unique_slug(text: str, taken, tries: int = 99) -> str:
    """Append -2, -3, ... (tries of them) until nobody has taken it."""
    base = slugify(text)
    if base not in taken:
        return base
    for number in range(2, tries + 2):
        candidate = f"{base}-{number}"
        if candidate not in taken:
            return candidate
    raise ValueError("no free slug")
