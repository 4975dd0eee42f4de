"""The space of text: every string up to a length.

Rejected: :class:`gymnasium.spaces.Text`. It lists its alphabet, and Unicode has 1,114,112 code points:
a membership test or a shared-memory row would walk that table.

Importing this module teaches :class:`gymnasium.vector.AsyncVectorEnv` to pass such text through shared
memory, so that ``gymnasium.make_vec(..., vectorization_mode="async")`` needs no flag.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from typing import Any, overload

import numpy as np
from gymnasium.spaces import Space
from gymnasium.vector.utils import (
    create_shared_memory,
    read_from_shared_memory,
    write_to_shared_memory,
)

from agentic_gym.errors import ConfigError, EnvContractError

_SAMPLE_LENGTH = 64
"""Longest sample: a megabyte of noise tests nothing that 64 characters do not."""

_LENGTH_BYTES, _CODEC = 4, "utf-32-le"
_SAMPLE_FRAGMENTS = (
    "<tool_call>",
    "</tool_call>",
    '{"name": "',
    '"}',
    "\n",
    "\x00",
    "é",
    "語",
    "🙂",
)


class UnicodeText(Space[str]):
    """All strings of at most ``max_length`` code points, NUL and lone surrogates included.

    Args:
        max_length: number of code points.
        seed: of :meth:`sample`.
    """

    def __init__(self, max_length: int, seed: int | np.random.Generator | None = None) -> None:
        if not isinstance(max_length, int) or max_length < 1:
            raise ConfigError(f"max_length must be a positive integer, got {max_length!r}")
        self.max_length = max_length
        super().__init__(shape=None, dtype=str, seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        """Text has no fixed shape."""
        return False

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """Random printable text mixed with what upsets parsers: tags, NUL, non-ASCII characters.

        Raises:
            ConfigError: a mask or probability was given; text has neither.
        """
        if mask is not None or probability is not None:
            raise ConfigError("UnicodeText samples take no mask and no probability")
        length = int(self.np_random.integers(0, min(self.max_length, _SAMPLE_LENGTH) + 1))
        draws = self.np_random.integers(32, 127 + len(_SAMPLE_FRAGMENTS), size=length)
        parts = (chr(n) if n < 127 else _SAMPLE_FRAGMENTS[n - 127] for n in draws)
        return "".join(parts)[:length]

    def contains(self, x: Any) -> bool:
        """Whether ``x`` is a string that is short enough."""
        return isinstance(x, str) and len(x) <= self.max_length

    def to_jsonable(self, sample_n: Any) -> list[str]:
        """Strings are JSON already."""
        return list(sample_n)

    def from_jsonable(self, sample_n: list[Any]) -> list[str]:
        """The inverse of :meth:`to_jsonable`."""
        return list(sample_n)

    def __repr__(self) -> str:
        return f"UnicodeText({self.max_length})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnicodeText) and self.max_length == other.max_length


class _SharedTexts(Sequence[str]):
    """A live view of the texts in shared memory, one an environment; a deep copy is a plain tuple.

    :class:`~gymnasium.vector.AsyncVectorEnv` reads the memory once, when it is made, and from then on
    hands out deep copies of that, counting on numpy arrays that share the memory. (Gymnasium's own
    ``Text`` returns strings there, which never change again.)
    """

    def __init__(self, space: UnicodeText, memory: memoryview, num_envs: int) -> None:
        self._row_bytes = _row_bytes(space)
        self._memory = memory
        self._num_envs = num_envs

    def __len__(self) -> int:
        return self._num_envs

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(self._num_envs)))
        begin = range(self._num_envs)[index] * self._row_bytes + _LENGTH_BYTES
        size = int.from_bytes(self._memory[begin - _LENGTH_BYTES : begin], "little")
        return bytes(self._memory[begin : begin + size]).decode(_CODEC, "surrogatepass")

    def __deepcopy__(self, memo: dict[int, Any]) -> tuple[str, ...]:
        return tuple(self)

    def __repr__(self) -> str:
        return repr(tuple(self))


def _row_bytes(space: UnicodeText) -> int:
    return _LENGTH_BYTES + 4 * space.max_length


@create_shared_memory.register(UnicodeText)
def _create(space: UnicodeText, n: int = 1, ctx: Any = multiprocessing) -> Any:
    """One row an environment: the number of bytes, then UTF-32."""
    return ctx.Array("B", n * _row_bytes(space))


@write_to_shared_memory.register(UnicodeText)
def _write(space: UnicodeText, index: int, value: str, shared_memory: Any) -> None:
    if not space.contains(value):
        raise EnvContractError(
            f"The observation is not within {space}: {type(value).__name__} of length {len(value)}"
        )
    data = value.encode(_CODEC, "surrogatepass")
    row = len(data).to_bytes(_LENGTH_BYTES, "little") + data
    begin = index * _row_bytes(space)
    memoryview(shared_memory.get_obj()).cast("B")[begin : begin + len(row)] = row


@read_from_shared_memory.register(UnicodeText)
def _read(space: UnicodeText, shared_memory: Any, n: int = 1) -> _SharedTexts:
    return _SharedTexts(space, memoryview(shared_memory.get_obj()).cast("B"), n)
