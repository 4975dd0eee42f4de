"""Output kept in bounded memory: its head, its tail, and how much there was."""

from __future__ import annotations


class HeadTail:
    """Keeps the first and the last half of ``limit`` bytes."""

    def __init__(self, limit: int) -> None:
        self._half = max(1, limit // 2)
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    def add(self, data: bytes) -> None:
        """Takes the next bytes."""
        self.total += len(data)
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data[-self._half :]
        if len(self._tail) > 4 * self._half:
            del self._tail[: -self._half]

    def value(self) -> bytes:
        """Head and tail, with a line between them that says how many bytes are left out."""
        tail = self._tail[-self._half :]
        omitted = self.total - len(self._head) - len(tail)
        if not omitted:
            return bytes(self._head + tail)
        return b"%s\n[... %d bytes omitted ...]\n%s" % (self._head, omitted, tail)
