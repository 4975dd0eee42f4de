"""Trajectories as bytes, exactly: arrays as they lie in memory, text and numbers as JSON, compressed.

Rejected: pickle (unsafe to open, tied to the layout of classes) and JSON for the arrays (slow, and
float32 log-probabilities would grow fourfold).
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from agentic_gym.errors import StoreError
from agentic_gym.types import Outcome, TokenStream, Trajectory, Turn

_LEVEL = 1  # log-probabilities hardly compress; the text does at any level
_STREAM_DTYPES = {
    "ids": "<i4",
    "sampled": "|b1",
    "logprobs": "<f4",
    "versions": "<i4",
    "turns": "<i4",
}


def to_json(value: Any) -> bytes:
    """JSON text as UTF-8 that keeps lone surrogates, for :func:`from_json`; numpy numbers become plain ones.

    Escaping them instead would change text: JSON reads two escaped surrogates as one character.

    Raises:
        StoreError: JSON cannot hold it.
    """
    try:
        text = json.dumps(value, default=_plain, separators=(",", ":"), ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise StoreError(f"this cannot be stored as JSON: {error}") from error
    return text.encode("utf-8", "surrogatepass")


def from_json(data: bytes) -> Any:
    """The value that :func:`to_json` was given."""
    return json.loads(data.decode("utf-8", "surrogatepass"))


def encode_trajectory(trajectory: Trajectory) -> bytes:
    """Bytes from which :func:`decode_trajectory` makes an equal trajectory.

    Raises:
        StoreError: a turn's ``info`` holds what JSON cannot, or an array would lose precision.
    """
    tokens = trajectory.tokens
    head = {
        "trajectory_id": trajectory.trajectory_id,
        "task_id": trajectory.task_id,
        "group_id": trajectory.group_id,
        "seed": trajectory.seed,
        "prompt": trajectory.prompt,
        "turns": [
            {f.name: getattr(turn, f.name) for f in fields(Turn)} for turn in trajectory.turns
        ],
        "num_tokens": None if tokens is None else len(tokens),
        "outcome": trajectory.outcome.value,
        "terminated": trajectory.terminated,
        "truncated": trajectory.truncated,
        "error": trajectory.error,
        "tags": trajectory.tags,
        "metrics": trajectory.metrics,
    }
    try:
        text = to_json(head)
        body = b"" if tokens is None else b"".join(_arrays(tokens))
    except (StoreError, TypeError, ValueError) as error:
        raise StoreError(
            f"trajectory {trajectory.trajectory_id!r} cannot be stored: {error}"
        ) from error
    return zlib.compress(struct.pack("<Q", len(text)) + text + body, _LEVEL)


def decode_trajectory(record: bytes) -> Trajectory:
    """The trajectory that :func:`encode_trajectory` was given.

    Raises:
        StoreError: the record is corrupt.
    """
    try:
        data = zlib.decompress(record)
        size = struct.unpack_from("<Q", data)[0]
        head = from_json(data[8 : 8 + size])
        num_tokens = head.pop("num_tokens")
        tokens = None if num_tokens is None else _stream(data, 8 + size, num_tokens)
        head["turns"] = tuple(Turn(**turn) for turn in head["turns"])
        head["outcome"] = Outcome(head["outcome"])
        return Trajectory(tokens=tokens, **head)
    except (zlib.error, struct.error, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"a stored trajectory is corrupt: {error}") from error


def _arrays(tokens: TokenStream) -> list[bytes]:
    arrays = []
    for name, dtype in _STREAM_DTYPES.items():
        array = np.asarray(getattr(tokens, name))
        if array.shape != (len(tokens),):
            raise ValueError(f"tokens.{name} has shape {array.shape}, ids have ({len(tokens)},)")
        arrays.append(array.astype(dtype, casting="equiv").tobytes())
    return arrays


def _stream(data: bytes, offset: int, num_tokens: int) -> TokenStream:
    arrays = {}
    for name, dtype in _STREAM_DTYPES.items():
        array = np.frombuffer(data, dtype=dtype, count=num_tokens, offset=offset)
        offset += array.nbytes
        arrays[name] = array.astype(array.dtype.newbyteorder("="))  # a copy that can be written to
    return TokenStream(**arrays)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not JSON: {value!r:.80}")
