"""A bounded store that threads share."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Generic, TypeVar

V = TypeVar("V")


class Recent(Generic[V]):
    """Keeps what was asked for or stored last.

    >>> kept = Recent[int](1)
    >>> kept.put(b"a", 1)
    >>> kept.put(b"b", 2)
    >>> kept.get(b"a"), kept.get(b"b")
    (None, 2)

    Args:
        limit: number of values; 0 keeps none.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._values: OrderedDict[bytes, V] = OrderedDict()

    def get(self, key: bytes) -> V | None:
        """The value of a key, or None."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def put(self, key: bytes, value: V) -> None:
        """Keeps a value."""
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            while len(self._values) > self._limit:
                self._values.popitem(last=False)
