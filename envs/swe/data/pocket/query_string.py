"""Parsing and building the query part of web addresses."""
from urllib.parse import quote, unquote


def parse_query(text: str, limit: int = 50) -> dict:
    """Lists of values by name, after an optional question mark."""
    if text.startswith("?"):
        text = text[1:]
    pieces = [piece for piece in text.split("&") if piece]
    if len(pieces) > limit:
        raise ValueError("too many fields")
    values = {}
    for piece in pieces:
        name, _, value = piece.replace("+", " ").partition("=")
        values.setdefault(unquote(name), []).append(unquote(value))
    return values


def build_query(values: dict) -> str:
    """Fields sorted by name; None leaves a field out."""
    parts = []
    for name in sorted(values):
        value = values[name]
        many = value if isinstance(value, (list, tuple)) else [value]
        for one in many:
            if one is None:
                continue
            parts.append(quote(name, "") + "=" + quote(str(one), ""))
    return "&".join(parts)


def add_field(address: str, name: str, value) -> str:
    """Put one more field at the end of an address."""
    joiner = "&" if "?" in address else "?"
    return address + joiner + build_query({name: value})
