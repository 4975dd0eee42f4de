"""One forward pass over tokens of many sequences, without padding.

All tokens of a step — one of each sequence that decodes, and the unread part of each new prompt — lie
behind each other in one row of shape [1, N]. Everything in a decoder but attention works token by
token, so nothing is wasted on padding; attention runs per sequence on the rows of a
:class:`~agentic_gym.engines.kv_cache.KVStore`. Sequences that decode occupy the first rows of the store
and are one call; each prompt part is a call of its own.

It enters a model through ``transformers.AttentionInterface``, after its own projections, norms and
rotary embedding, so that no code is written per model. A model for which this is not exact is found
by :func:`probe`, which compares with the model's own plain forward pass.

Rejected: left-padded batches (``generate``: everything waits for the longest), ``transformers``'
``generate_batch`` (a twentieth of the speed of ``generate`` on a CPU).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from agentic_gym.engines.kv_cache import KVStore

ATTENTION = "agentic_gym_ragged"
"""Name under which :func:`register_attention` registers the attention function."""

_BUCKET = 32
"""The decode mask is as long as the longest sequence, rounded up to this."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive tokens of one sequence.

    Attributes:
        row: of the store.
        start: position of the first token.
        count: tokens.
    """

    row: int
    start: int
    count: int


class RaggedBatch:
    """The layout of one step: ``num_decode`` single tokens of rows 0…, then segments.

    Args:
        store: keys and values.
        decode_positions: position of the token of each decoding row.  # [D]
        segments: prompt parts.
        dtype: of the model.
        device: of the model.
    """

    def __init__(
        self,
        store: KVStore,
        decode_positions: Sequence[int],
        segments: Sequence[Segment],
        *,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.store = store
        self.segments = tuple(segments)
        self.num_decode = len(decode_positions)
        rows = list(range(self.num_decode))
        positions = list(decode_positions)
        last = list(range(self.num_decode))
        for segment in segments:
            rows.extend([segment.row] * segment.count)
            positions.extend(range(segment.start, segment.start + segment.count))
            last.append(len(rows) - 1)
        index = torch.tensor([rows, positions, last + [0] * (len(rows) - len(last))], device=device)
        self.rows, self.positions = index[0], index[1]
        self.last = index[2, : len(last)]
        self.decode_length = 0
        self.decode_mask = torch.empty(0, device=device)
        if decode_positions:
            length = -(-(max(decode_positions) + 1) // _BUCKET) * _BUCKET
            self.decode_length = min(length, store.max_length)
            held = torch.arange(self.decode_length, device=device)
            reach = held[None] <= self.positions[: self.num_decode, None]
            self.decode_mask = _additive(reach, dtype)[:, None]
        self._masks: list[Tensor] = []
        for segment in segments:
            queries = torch.arange(segment.start, segment.start + segment.count, device=device)
            keys = torch.arange(segment.start + segment.count, device=device)
            self._masks.append(_additive(keys[None] <= queries[:, None], dtype))

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
        """Stores keys and values, and attends each token to its own sequence.

        Args:
            layer: index of the attention layer.
            query: [N, heads, head size]; ``key`` and ``value`` with their own number of heads.
            scale: of the scores.

        Returns:
            [N, heads × value head size]
        """
        keys, values = self.store.layer(layer, key, value)
        keys[self.rows, :, :, self.positions] = key
        values[self.rows, :, self.positions] = value
        parts: list[Tensor] = []
        if self.num_decode:
            parts.append(self._decode(query[: self.num_decode] * scale, keys, values))
        offset = self.num_decode
        for segment, mask in zip(self.segments, self._masks, strict=True):
            part = query[offset : offset + segment.count]
            parts.append(_prefill(part, keys, values, segment, mask, scale))
            offset += segment.count
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _decode(self, query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """One token of each of the first rows.

        Three plain products: on a CPU they take three quarters of the time of PyTorch's fused attention,
        which is made for many queries.
        """
        count, kv_heads, length = self.num_decode, keys.shape[1], self.decode_length
        keys = keys[:count, :, :, :length].flatten(0, 1)
        values = values[:count, :, :length].flatten(0, 1)
        grouped = query.reshape(count * kv_heads, -1, query.shape[-1])
        scores = torch.bmm(grouped, keys)
        scores.view(count, -1, length).add_(self.decode_mask)
        if scores.dtype in (torch.float16, torch.bfloat16):
            weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(scores.dtype)
        else:
            weights = torch.softmax(scores, dim=-1, out=scores)
        return torch.bmm(weights, values).view(count, -1)


def _prefill(
    query: Tensor, keys: Tensor, values: Tensor, segment: Segment, mask: Tensor, scale: float
) -> Tensor:
    """A prompt part of one row.  # query [T, heads, head size] -> [T, heads × head size]"""
    count, heads, size = query.shape
    kv_heads, end = keys.shape[1], segment.start + segment.count
    group = heads // kv_heads
    attended = scaled_dot_product_attention(
        # The heads of a group are queries of one key head: no key is repeated.
        query.transpose(0, 1).reshape(1, kv_heads, group * count, size),
        keys[segment.row, :, :, :end].transpose(1, 2).contiguous()[None],
        values[segment.row, :, :end][None],
        attn_mask=mask.repeat(group, 1),
        scale=scale,
    )
    return attended.reshape(heads, count, -1).transpose(0, 1).reshape(count, -1)


def _additive(allowed: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.zeros(allowed.shape, dtype=dtype, device=allowed.device).masked_fill_(
        ~allowed, float("-inf")
    )


def ragged_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float | None = None,
    ragged: RaggedBatch,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """An attention function for ``transformers.AttentionInterface``."""
    if softcap is not None or s_aux is not None:
        raise ValueError("attention with soft-capped scores or sinks is not served")
    scale = scaling if scaling is not None else query.shape[-1] ** -0.5
    q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
    attended = ragged.attend(module.layer_idx, q, k, v, scale)
    return attended.view(1, query.shape[2], query.shape[1], -1), None


def register_attention() -> str:
    """Makes the attention function known to ``transformers``; returns its name. Idempotent."""
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(ATTENTION, ragged_attention)
    AttentionMaskInterface.register(ATTENTION, lambda *_args, **_kwargs: None)
    return ATTENTION
