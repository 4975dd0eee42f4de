"""What each sampled token of a trained trajectory earned, and what it was trained on.

Kept in a table of its own, which stores of older releases lack: they are read as if nothing had been kept.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from agentic_gym.errors import StoreError

CREDIT_TABLE = (
    "CREATE TABLE IF NOT EXISTS credit (trajectory_id TEXT PRIMARY KEY, record BLOB NOT NULL)"
)

_LEVEL = 1
"""Rewards are mostly 0 and advantages of a turn often alike: a few hundred bytes of several thousand."""


@dataclass(frozen=True, slots=True, eq=False)
class TokenCredit:
    """Credit of one trajectory, over its sampled tokens in order (the first token of a stream is none).

    Attributes:
        rewards: what each earned, after the credit assigners.  # float32 [N]
        advantages: what the policy was trained on.  # float32 [N]
    """

    rewards: npt.NDArray[np.float32]
    advantages: npt.NDArray[np.float32]


def encode_credit(credit: TokenCredit) -> bytes:
    """Bytes from which :func:`decode_credit` makes equal arrays.

    Raises:
        StoreError: the arrays differ in length, or are no float32.
    """
    arrays = (np.asarray(credit.rewards), np.asarray(credit.advantages))
    shapes = {(array.shape, array.dtype) for array in arrays}
    if shapes != {((arrays[0].size,), np.dtype(np.float32))}:
        raise StoreError(
            "rewards and advantages of a trajectory must be float32 with one number a sampled token, got "
            + " and ".join(f"{array.dtype} {array.shape}" for array in arrays)
        )
    body = b"".join(array.astype("<f4").tobytes() for array in arrays)
    return zlib.compress(struct.pack("<Q", arrays[0].size) + body, _LEVEL)


def decode_credit(record: bytes) -> TokenCredit:
    """The credit that :func:`encode_credit` was given.

    Raises:
        StoreError: the record is corrupt.
    """
    try:
        data = zlib.decompress(record)
        count = struct.unpack_from("<Q", data)[0]
        numbers = np.frombuffer(data, "<f4", offset=8).astype(np.float32).reshape(2, count)
    except (zlib.error, struct.error, ValueError) as error:
        raise StoreError(f"stored credit is corrupt: {error}") from error
    return TokenCredit(numbers[0], numbers[1])
