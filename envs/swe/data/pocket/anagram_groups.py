"""Finding words that are made of the same letters."""


def signature(word: str) -> str:
    """The letters of word, lowercase and sorted."""
    letters = [char for char in word.lower() if char.isalpha()]
    return "".join(sorted(letters))


def anagram_groups(words, least: int = 2) -> list:
    """Groups of at least least anagrams, the largest first."""
    found = {}
    for word in words:
        group = found.setdefault(signature(word), [])
        if word not in group:
            group.append(word)
    groups = [group for group in found.values() if len(group) >= least]
    return sorted(groups, key=len, reverse=True)


def is_anagram(one: str, two: str) -> bool:
    """Same letters, but not the same word again."""
    differ = one.lower() != two.lower()
    return differ and signature(one) == signature(two)


def can_spell(word: str, letters: str) -> bool:
    """Is each letter of word there often enough?"""
    pool = list(signature(letters))
    for letter in signature(word):
        if letter not in pool:
            return False
        pool.remove(letter)
    return True
