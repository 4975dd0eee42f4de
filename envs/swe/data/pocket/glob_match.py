"""Matching names against patterns with *, ? and [...]."""


def in_class(char: str, letters: str) -> bool:
    """Is char among letters such as abc, a-z0-9 or !x?"""
    if letters[0] == "!":
        return not in_class(char, letters[1:])
    at = 0
    while at < len(letters):
        last = at
        if letters[at + 1:at + 2] == "-" and at + 2 < len(letters):
            last = at + 2
        if letters[at] <= char <= letters[last]:
            return True
        at = last + 1
    return False


def glob_match(pattern: str, name: str) -> bool:
    """Does the whole of name match pattern?"""
    if not pattern:
        return name == ""
    head, rest = pattern[0], pattern[1:]
    if head == "*":
        cuts = range(len(name) + 1)
        return any(glob_match(rest, name[cut:]) for cut in cuts)
    if head == "[":
        close = pattern.find("]", 2)
        if close < 0:
            raise ValueError("the bracket is not closed")
        rest = pattern[close + 1:]
        fits = name != "" and in_class(name[0], pattern[1:close])
    else:
        fits = head in ("?", name[:1]) and len(name) > 0
    return fits and glob_match(rest, name[1:])
