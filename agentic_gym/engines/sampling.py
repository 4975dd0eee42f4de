"""Seeded sampling of many rows at once, whatever is batched beside them.

A row's noise is a hash of (request key, index of the token), never the state of a shared generator: the
order in which requests join, leave or are interrupted cannot change what one of them samples (up to
the rounding of the logits). One uniform number a token goes through the inverse of the cumulative
distribution; Gumbel noise would need one number a token *and vocabulary entry*.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


def noise_key(seed: int, request_id: str) -> int:
    """64-bit key of one request's noise.

    >>> noise_key(0, "a") == noise_key(0, "a"), noise_key(0, "a") == noise_key(1, "a")
    (True, False)
    """
    digest = hashlib.blake2b(f"{seed}\0{request_id}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def uniforms(keys: npt.NDArray[np.uint64], counters: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Uniform numbers in [0, 1): splitmix64 of each key at each counter (Steele et al., 2014).

    Args:
        keys: one a row.  # uint64 [N]
        counters: index of the token to sample in its completion.  # integers [N]
    """
    with np.errstate(over="ignore"):
        state = keys + (counters.astype(np.uint64) + np.uint64(1)) * _GOLDEN
        state = (state ^ (state >> np.uint64(30))) * _MIX_1
        state = (state ^ (state >> np.uint64(27))) * _MIX_2
        state = state ^ (state >> np.uint64(31))
    uniform: npt.NDArray[np.float64] = (state >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return uniform


def sample(
    logits: Tensor, temperatures: Tensor, noise: Tensor, *, forced: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Samples one token a row.

    Args:
        logits: float [N, V].
        temperatures: 0 is greedy, whose log-probabilities are those of temperature 1.  # [N]
        noise: uniform numbers in [0, 1).  # float64 [N]
        forced: the token to take whatever the noise says, or -1.  # int64 [N]

    Returns:
        token ids [N]; their log-probabilities [N]; whether all logits of the row were finite [N].
    """
    greedy = temperatures <= 0
    scale = torch.where(greedy, torch.ones_like(temperatures), temperatures)
    logits = logits.float()
    finite = torch.isfinite(logits).all(dim=-1)
    logprobs_NV = torch.log_softmax(logits / scale[:, None], dim=-1)
    cumulative = logprobs_NV.double().exp_().cumsum(dim=-1)
    target = noise[:, None] * cumulative[:, -1:]
    tokens = torch.searchsorted(cumulative, target, right=True)[:, 0]
    tokens = tokens.clamp_(max=logits.shape[-1] - 1)
    tokens = torch.where(greedy, logits.argmax(dim=-1), tokens)
    if forced is not None:
        tokens = torch.where(forced < 0, tokens, forced)
    return tokens, logprobs_NV.gather(1, tokens[:, None])[:, 0], finite
