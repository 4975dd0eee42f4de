"""Longest common prefix, substring and subsequence."""


def common_prefix(words: list) -> str:
    """Longest start that all words share."""
    if not words:
        raise ValueError("no words given")
    size = 0
    while size < len(words[0]):
        wanted = words[0][:size + 1]
        if not all(word.startswith(wanted) for word in words):
            break
        size += 1
    return words[0][:size]


def common_substring(one: str, two: str) -> str:
    """Longest run of letters in both; the first in one on ties."""
    best = ""
    for start in range(len(one)):
        while one[start:start + len(best) + 1] in two:
            if start + len(best) >= len(one):
                break  # nothing left in one
            best = one[start:start + len(best) + 1]
    return best


def common_subsequence(one: str, two: str) -> str:
    """Longest text left in both after striking letters out."""
    row = [""] * (len(two) + 1)
    for a in one:
        above, row = row, [""]
        for j, b in enumerate(two):
            if a == b:
                row.append(above[j] + a)
            else:
                row.append(max(row[j], above[j + 1], key=len))
    return row[-1]
