"""Length-prefixed frames over a pair of descriptors; the same code on both sides.

A frame is a fixed prefix (length of the header, length of the body), a JSON header, and a body: the
bytes of the files that the header speaks of, one after the other. JSON rather than ``pickle`` or
``marshal``, because the host must be able to read a frame from a sandbox that it does not trust.
"""

from __future__ import annotations

import json
import os
import select
import struct
import time
from collections.abc import Sequence
from typing import Any

_PREFIX = struct.Struct("!IQ")
_MAX_HEADER = 256 * 2**20
_MAX_BODY = 4 * 2**30
_CHUNK = 2**20


class ChannelClosed(Exception):
    """The other side is gone."""


class ChannelTimeout(Exception):
    """The other side did not answer in time."""


class Channel:
    """One side of a conversation. Not thread-safe: the owner holds a lock.

    Args:
        read_fd: where frames come from.
        write_fd: where frames go; may be the same descriptor (a socket).
    """

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self.read_fd = read_fd
        self.write_fd = write_fd
        os.set_blocking(read_fd, False)
        os.set_blocking(write_fd, False)

    def send(
        self, header: dict[str, Any], blobs: Sequence[bytes] = (), *, timeout_s: float | None = None
    ) -> None:
        """Sends one frame.

        Raises:
            ChannelClosed: nobody reads any more.
            ChannelTimeout: it was not taken within ``timeout_s``.
        """
        text = json.dumps({**header, "blobs": [len(blob) for blob in blobs]}).encode()
        body = sum(len(blob) for blob in blobs)
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        view = memoryview(b"".join((_PREFIX.pack(len(text), body), text, *blobs)))
        while view:
            try:
                view = view[os.write(self.write_fd, view[:_CHUNK]) :]
            except BlockingIOError:
                _wait(self.write_fd, select.POLLOUT, deadline)
            except OSError as error:
                raise ChannelClosed(str(error)) from None

    def receive(self, *, timeout_s: float | None = None) -> tuple[dict[str, Any], list[bytes]]:
        """Receives one frame: its header and its blobs.

        Raises:
            ChannelClosed: the other side is gone, or sent what is no frame.
            ChannelTimeout: no whole frame came within ``timeout_s``.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        header_size, body_size = _PREFIX.unpack(self._exactly(_PREFIX.size, deadline))
        if header_size > _MAX_HEADER or body_size > _MAX_BODY:
            raise ChannelClosed(f"a frame of {header_size} + {body_size} bytes is no frame of ours")
        try:
            header = json.loads(self._exactly(header_size, deadline))
            sizes = header.pop("blobs")
            body = memoryview(self._exactly(body_size, deadline))
            blobs = []
            for size in sizes:
                blobs.append(bytes(body[:size]))
                body = body[size:]
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ChannelClosed(f"malformed frame: {error}") from None
        return header, blobs

    def close(self) -> None:
        """Closes the descriptors."""
        for fd in {self.read_fd, self.write_fd}:
            os.close(fd)

    def _exactly(self, size: int, deadline: float | None) -> bytearray:
        data = bytearray(size)
        view = memoryview(data)
        while view:
            try:
                count = os.readv(self.read_fd, [view])
            except BlockingIOError:
                _wait(self.read_fd, select.POLLIN, deadline)
                continue
            except OSError as error:
                raise ChannelClosed(str(error)) from None
            if count == 0:
                raise ChannelClosed("end of stream")
            view = view[count:]
        return data


def _wait(fd: int, event: int, deadline: float | None) -> None:
    poll = select.poll()
    poll.register(fd, event)
    left = None if deadline is None else max(0.0, deadline - time.monotonic()) * 1e3
    if not poll.poll(left):
        raise ChannelTimeout
