"""Keys and values of many sequences, one row each, and which row holds which sequence.

:class:`KVStore` is the memory, :class:`RowTable` the bookkeeping (no tensors). A row remembers the ids
whose keys and values it holds, so that the next turn of an episode computes only what is new; when
rows run out, the one used longest ago goes (LRU).

Rejected: the cache classes of ``transformers``. They advance every row of a batch together, and
concatenate or mask whole batches; here rows have their own lengths and live longer than any batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor


class KVStore:
    """Preallocated keys and values.

    Args:
        num_layers: attention layers.
        num_rows: sequences held at once.
        max_length: positions of each row.
        device: where it lies.
    """

    def __init__(
        self, num_layers: int, num_rows: int, max_length: int, device: torch.device
    ) -> None:
        self.max_length = max_length
        self._num_rows = num_rows
        self._device = device
        self._layers: list[tuple[Tensor, Tensor] | None] = [None] * num_layers

    def layer(self, index: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Key and value memory of one layer; made on first use, shaped after ``key`` and ``value``.

        Args:
            index: of the layer.
            key: any keys [N, kv heads, head size]; likewise ``value``.

        Returns:
            keys [rows, kv heads, head size, max_length], so that the products of one query with all
            keys read memory in order, and values [rows, kv heads, max_length, head size].
        """
        held = self._layers[index]
        if held is None:
            held = self._new(key).transpose(2, 3).contiguous(), self._new(value)
            self._layers[index] = held
        return held

    def swap(self, a: int, b: int, length: int) -> None:
        """Exchanges the first ``length`` positions of two rows."""
        for memory in self._memories():
            kept = memory[a, :, :length].clone()
            memory[a, :, :length] = memory[b, :, :length]
            memory[b, :, :length] = kept

    def copy(self, source: int, target: int, length: int) -> None:
        """Copies the first ``length`` positions of a row over another's."""
        for memory in self._memories():
            memory[target, :, :length] = memory[source, :, :length]

    def wipe(self, row: int) -> None:
        """Zeroes a row that may hold NaN."""
        for memory in self._memories():
            memory[row].zero_()

    def _new(self, like: Tensor) -> Tensor:
        # Zeros, not empty: a masked position has weight 0, and 0 × NaN would be NaN.
        shape = (self._num_rows, like.shape[1], self.max_length, like.shape[2])
        return torch.zeros(shape, dtype=like.dtype, device=self._device)

    def _memories(self) -> list[Tensor]:
        """Views of one shape: [rows, kv heads, max_length, head size]."""
        held = [layer for layer in self._layers if layer is not None]
        return [view for keys, values in held for view in (keys.transpose(2, 3), values)]


@dataclass(slots=True)
class Row:
    """What one row of the store holds.

    Attributes:
        tokens: ids whose keys and values are valid, from position 0.
        session: episode that it is kept for, or None.
        busy: a request runs in it; it cannot be taken.
        used: logical time of the last use.
        stale: some of it was computed under earlier weights, or reads what was. Good enough for the
            request and the episode that it belongs to (publish mode "keep_kv"), for nobody else.
    """

    tokens: list[int] = field(default_factory=list)
    session: str | None = None
    busy: bool = False
    used: int = 0
    stale: bool = False

    def cut(self, length: int) -> None:
        """Forgets all but the first tokens."""
        del self.tokens[length:]
        self.stale = self.stale and length > 0


class RowTable:
    """Which row belongs to whom."""

    def __init__(self, num_rows: int) -> None:
        self.rows = [Row() for _ in range(num_rows)]
        self._by_session: dict[str, int] = {}
        self._clock = 0

    def acquire(self, session: str | None) -> int | None:
        """Row for a new request: the session's own, else a free one, else the least recently used.

        Returns:
            the row's index, or None if every row is busy (or the session's own is).
        """
        self._clock += 1
        index = self._by_session.get(session) if session is not None else None
        if index is None:
            idle = [i for i, row in enumerate(self.rows) if not row.busy]
            if not idle:
                return None
            index = min(idle, key=lambda i: (self.rows[i].session is not None, self.rows[i].used))
            self._assign(index, session)
        elif self.rows[index].busy:
            return None
        row = self.rows[index]
        row.busy, row.used = True, self._clock
        return index

    def free(self, index: int, *, forget: bool = False) -> None:
        """The request in this row has ended; a session's row stays for its next turn."""
        row = self.rows[index]
        row.busy = False
        if forget:
            row.cut(0)

    def release(self, session: str) -> None:
        """The episode is over: its row may be taken first."""
        index = self._by_session.pop(session, None)
        if index is not None:
            self.rows[index].session = None

    def swap(self, a: int, b: int) -> None:
        """Exchanges two rows, as :meth:`KVStore.swap` does."""
        self.rows[a], self.rows[b] = self.rows[b], self.rows[a]
        for index in (a, b):
            session = self.rows[index].session
            if session is not None:
                self._by_session[session] = index

    def invalidate(self) -> None:
        """New weights: nothing that is held is valid."""
        for row in self.rows:
            row.cut(0)

    def outdate(self) -> None:
        """New weights: what is held stays with its owners and goes to nobody else."""
        for row in self.rows:
            row.stale = bool(row.tokens)

    def donor(self, prompt: Sequence[int], exclude: int) -> tuple[int, int]:
        """The row that shares the longest prefix with a prompt: (index, common length)."""
        best, length = exclude, 0
        for index, row in enumerate(self.rows):
            if index != exclude and not row.stale and len(row.tokens) > length:
                common = common_prefix(row.tokens, prompt)
                if common > length:
                    best, length = index, common
        return best, length

    def _assign(self, index: int, session: str | None) -> None:
        row = self.rows[index]
        if row.session is not None:
            del self._by_session[row.session]
        if row.session is not None or row.stale:
            row.cut(0)
        row.session = session
        if session is not None:
            self._by_session[session] = index


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """Length of the longest common prefix.

    >>> common_prefix([1, 2, 3], [1, 2, 4, 5])
    2
    """
    limit = min(len(a), len(b))
    if list(a[:limit]) == list(b[:limit]):
        return limit
    low, high = 0, limit  # invariant: a[:low] == b[:low] and a[:high] != b[:high]
    while high - low > 1:
        middle = (low + high) // 2
        if list(a[low:middle]) == list(b[low:middle]):
            low = middle
        else:
            high = middle
    return low
