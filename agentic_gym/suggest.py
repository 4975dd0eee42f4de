"""Did you mean …? The same words for every name that a person may misspell."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

_FEW = 20


def did_you_mean(word: str, known: Iterable[str], *, count: int = 1) -> str:
    """A sentence with the nearest known names, a space before it; nothing if none is near.

    >>> did_you_mean("trian", ["train", "dev"]), did_you_mean("zzz", ["dev"])
    (" Did you mean 'train'?", '')

    Args:
        word: as given.
        known: what there is.
        count: names at most.
    """
    return question(difflib.get_close_matches(word, list(known), n=count))


def nearest_or_all(word: str, known: Sequence[str]) -> str:
    """As :func:`did_you_mean`; where nothing is near, all that there is, unless that is much."""
    everything = f" There is: {', '.join(known)}." if len(known) <= _FEW else ""
    return did_you_mean(word, known) or everything


def question(names: Sequence[str]) -> str:
    """The sentence itself; nothing for no name."""
    return f" Did you mean {' or '.join(map(repr, names))}?" if names else ""
