"""What programmers confuse: symmetric pairs of tokens, names and literals.

Symmetric on purpose: a bug made by one pair is repaired by the same pair, so that the operators that
inject bugs also span the search space of the ``random`` agent.
"""

from __future__ import annotations

Confusions = dict[str, tuple[str, ...]]


def confusions(*pairs: tuple[str, str]) -> Confusions:
    """The symmetric mapping of the pairs.

    >>> confusions(("<", "<="), ("<", ">"))
    {'<': ('<=', '>'), '<=': ('<',), '>': ('<',)}
    """
    found: dict[str, dict[str, None]] = {}
    for left, right in pairs:
        found.setdefault(left, {})[right] = None
        found.setdefault(right, {})[left] = None
    return {key: tuple(values) for key, values in found.items()}


def _words(text: str) -> Confusions:
    """Reads ``"a b, c d"``."""
    pairs = [pair.split() for pair in text.split(",")]
    return confusions(*[(left, right) for left, right in pairs])


COMPARISONS = confusions(
    *[("<", "<="), ("<", ">"), ("<=", ">="), (">", ">="), ("<", ">="), (">", "<=")],
    *[("==", "!="), ("==", ">="), ("==", "<="), ("!=", ">"), ("!=", "<")],
    *[("in", "not in"), ("is", "is not")],
)
ARITHMETIC = _words("+ -, * +, * //, / //, // %, / *, % *, ** *, << >>, & |, ^ &, ^ |")
AUGMENTED = _words("+= -=, *= +=, += =, -= =, *= =, //= -=, //= %=, //= =, |= &=")
METHODS = _words(
    "upper lower, lower title, upper capitalize, title capitalize, lstrip rstrip, strip rstrip,"
    "strip lstrip, find rfind, index rindex, index find, split rsplit, partition rpartition,"
    "startswith endswith, ljust rjust, center ljust, append extend, append add, append insert,"
    "appendleft append, pop popleft, add discard, items keys, items values, keys values, min max,"
    "any all, floor ceil, isdigit isalpha, isalnum isalpha, isalnum isdigit, isupper islower,"
    "union intersection, sorted list, sorted reversed, removeprefix removesuffix,"
    "issubset issuperset, get pop, bisect_left bisect_right, sum len, sum max, set list, int float"
)
EXCEPTIONS = _words(
    "ValueError TypeError, KeyError IndexError, ValueError KeyError, KeyError TypeError,"
    "ZeroDivisionError ValueError, IndexError ValueError, RuntimeError ValueError,"
    "OverflowError ValueError, LookupError ValueError, StopIteration ValueError"
)
INITIAL = confusions(
    *[("0", "1"), ("0", "-1"), ("1", "2"), ("0.0", "1.0"), ("True", "False"), ("None", "0")],
    *[('""', '" "'), ("''", "' '"), ("[]", "[0]"), ("[]", "None"), ("{}", "None"), ("None", '""')],
    *[("set()", "[]"), ("[]", "{}"), ('""', "None"), ("[0]", "[1]"), ("[1]", "[]")],
)
STRINGS = confusions(
    *[
        ("-", "_"),
        (".", ","),
        (",", ";"),
        (":", ";"),
        ("(", "["),
        (")", "]"),
        ("{", "("),
        ("}", ")"),
    ],
    *[("0", "1"), ("/", "\\\\"), ("+", "-"), (" ", ""), ("\\n", " "), ("\\n", ""), ("a", "b")],
    *[("a", "A"), ("z", "Z"), ("z", "y"), ("9", "8"), ("-", " "), (",", ""), (".", ""), ("*", "#")],
)
