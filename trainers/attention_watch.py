"""Shows attention weights of chosen rows while a model runs with fused attention.

The model computes PyTorch's fused attention as always; beside it, ``softmax(q·kᵀ·scaling + mask)`` is
computed in float32, without gradient, of the wanted rows alone. It stands in transformers' registry of
attention functions, where queries and keys have been rotated and normalised, so no model needs code of
its own, and LoRA, gradient checkpointing, grouped queries, sliding windows and attention sinks work.

A hook on the layers that computes queries and keys anew was rejected: it repeats what each model does in
its own way. So was passing the rows through the model's keyword arguments, which not all models hand on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from agentic_gym.errors import ConfigError
from agentic_gym.trainers.attention_sums import Sums
from agentic_gym.trainers.scoring import ROW_ATTENTION, check_cuttable

WATCHED = "watched"
"""Name of the watched attention of padded lines in transformers' registry. Without "sdpa" in it:
transformers refuses such names to models with attention sinks, which work here."""

WATCHED_ROWS = "watched_rows"
"""The same for packed lines. It has no mask: one over the whole line would be quadratic."""

CELLS = 1 << 21
"""Weights computed at once: 8 MiB of float32."""

Layers = Literal["all"] | float | Sequence[int]
Heads = Literal["all"] | Sequence[int]


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """Part of a line of tokens within which attention stays, and the rows of it to look at.

    Attributes:
        number: what the sums know it by.
        line: which line of the batch.
        start: its first position in the line.
        stop: the position behind its last.
        rows: positions within the segment, on the model's device.  # int64 [R]
    """

    number: int
    line: int
    start: int
    stop: int
    rows: Tensor


@dataclass(slots=True, eq=False)
class _Watch:
    """What to look at in the forward pass that runs now."""

    segments: Sequence[Segment]
    sums: Sums
    layers: tuple[int, ...]
    heads: list[int] | None
    cells: int
    seen: set[int] = field(default_factory=set)

    @torch.no_grad()
    def look(
        self,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        mask: Tensor | None,
        scaling: float | None,
        causal: bool,
        sinks: Tensor | None,
    ) -> None:
        """Hands the wanted weights of one layer on, a few rows at a time."""
        layer = getattr(module, "layer_idx", None)
        if not isinstance(layer, int):
            raise ConfigError(
                f"{type(module).__name__} does not know its layer_idx: attention rows cannot be "
                "told apart"
            )
        if layer not in self.layers or layer in self.seen:
            return  # seen: a backward pass under gradient checkpointing runs it again
        if key.shape[2] != query.shape[2]:
            raise ConfigError(
                f"{key.shape[2]} keys for {query.shape[2]} queries: attention rows need the whole "
                "sequence in one pass, with use_cache=False and without a tuned prefix"
            )
        self.seen.add(layer)
        with torch.autocast(query.device.type, enabled=False):  # it would round the scores
            self._show(layer, query, key, mask, scaling, causal, sinks)

    def _show(
        self,
        layer: int,
        query: Tensor,
        key: Tensor,
        mask: Tensor | None,
        scaling: float | None,
        causal: bool,
        sinks: Tensor | None,
    ) -> None:
        scale = query.shape[-1] ** -0.5 if scaling is None else scaling
        heads = list(range(query.shape[1])) if self.heads is None else self.heads
        if mask is not None:
            mask = mask.expand(query.shape[0], -1, -1, -1)
        for segment in self.segments:
            size = segment.stop - segment.start
            step = max(1, self.cells // max(1, size * len(heads)))
            keys = _keys(key[segment.line, :, segment.start : segment.stop], query, self.heads)
            positions = torch.arange(size, device=query.device)
            for first in range(0, len(segment.rows), step):
                at = slice(first, first + step)
                rows = segment.rows[at]
                scores = _scores(query[segment.line], keys, rows + segment.start, self.heads)
                scores *= scale
                if mask is not None:
                    part = mask[segment.line][:, rows + segment.start, segment.start : segment.stop]
                    _apply(part if len(part) == 1 else part[heads], scores)
                elif causal:
                    scores.masked_fill_(positions > rows[:, None], -torch.inf)
                weights = _softmax(scores, None if sinks is None else sinks[heads])
                self.sums.add(layer, segment.number, at, rows, weights)


def _keys(key: Tensor, query: Tensor, heads: list[int] | None) -> Tensor:
    """Keys of one segment: one of each group of query heads, or one of each chosen head."""
    if heads is not None:
        groups = query.shape[1] // key.shape[0]
        key = key[[head // groups for head in heads]]
    return key.to(torch.promote_types(key.dtype, torch.float32))


def _scores(query: Tensor, keys: Tensor, rows: Tensor, heads: list[int] | None) -> Tensor:
    """Products of the queries of rows with all keys, without repeating keys.  # [H, R, S]"""
    chosen = (query if heads is None else query[heads])[:, rows].to(keys.dtype)
    grouped = chosen.reshape(len(keys), -1, chosen.shape[-1])
    return (grouped @ keys.transpose(1, 2)).view(len(chosen), len(rows), -1)


def _apply(mask: Tensor, scores: Tensor) -> None:
    if mask.dtype is torch.bool:
        scores.masked_fill_(~mask, -torch.inf)
    else:
        scores += mask


def _softmax(scores: Tensor, sinks: Tensor | None) -> Tensor:
    """Weights; a row that sees nothing becomes NaN, which is how it is found."""
    if sinks is None:
        return scores.softmax(-1)
    column = sinks.to(scores.dtype)[:, None, None].expand(-1, scores.shape[1], 1)
    return torch.cat([scores, column], -1).softmax(-1)[..., :-1]


_ACTIVE: ContextVar[_Watch | None] = ContextVar("agentic_gym_attention_watch", default=None)


def _watched(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    *,
    is_causal: bool | None = None,
    s_aux: Tensor | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """What transformers' sdpa computes; shows its queries and keys to the watch."""
    for name in ("softcap", "position_bias", "sinks"):
        if kwargs.get(name) is not None:
            raise ConfigError(
                f"{type(module).__name__} changes its attention scores ({name}), which fused attention "
                "cannot do: attention rows are not to be had of this model"
            )
    watch = _ACTIVE.get()
    if watch is not None:
        causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
        watch.look(module, query, key, attention_mask, scaling, causal, s_aux)
    options = {"dropout": dropout, "scaling": scaling, "is_causal": is_causal}
    if s_aux is None:
        return cast(
            tuple[Tensor, None],
            sdpa_attention_forward(module, query, key, value, attention_mask, **options),
        )
    return _with_sinks(module, query, key, value, attention_mask, s_aux, options)


def _with_sinks(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    sinks: Tensor,
    options: dict[str, Any],
) -> tuple[Tensor, None]:
    """Fused attention with a sink: a score of its own for each head, and no value.

    The sink becomes a first token whose key meets one more dimension of the queries, in which each
    head has its sink. All heads so share a mask, or need none; the first token's own output is dropped.
    """
    scale = query.shape[-1] ** -0.5 if options["scaling"] is None else options["scaling"]
    width = query.shape[-1]
    query, key = F.pad(query, (0, 8, 1, 0)), F.pad(key, (0, 8, 1, 0))  # kernels like multiples of 8
    query[..., 1:, width] = (sinks / scale)[:, None].to(query.dtype)
    key[:, :, 0, width] = 1.0
    padded = F.pad(value, (0, query.shape[-1] - value.shape[-1], 1, 0))
    if mask is not None:
        mask = F.pad(mask, (1, 0, 1, 0), value=1.0 if mask.dtype is torch.bool else 0.0)
    output, _ = sdpa_attention_forward(
        module, query, key, padded, mask, **(options | {"scaling": scale})
    )
    return output[:, 1:, :, : value.shape[-1]], None


def _watched_rows(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attention within each packed row; shows its queries and keys to the watch."""
    attend = AttentionInterface()[ROW_ATTENTION]
    output = attend(module, query, key, value, None, dropout, scaling, **kwargs)
    watch = _ACTIVE.get()
    if watch is not None:
        watch.look(module, query, key, None, scaling, True, None)
    return cast(tuple[Tensor, None], output)


AttentionInterface.register(WATCHED, _watched)
AttentionMaskInterface.register(WATCHED, sdpa_mask)
AttentionInterface.register(WATCHED_ROWS, _watched_rows)


@contextmanager
def watching(
    model: nn.Module,
    segments: Sequence[Segment],
    sums: Sums,
    *,
    packed: bool = False,
    layers: Layers = "all",
    heads: Heads = "all",
    cells: int = CELLS,
) -> Iterator[None]:
    """Shows the attention weights of chosen rows in the one forward pass that runs inside.

    The model computes what it computes with ``sdpa`` (``packed``: with the attention of packed rows),
    and has its own attention back afterwards. Only the calling thread is watched. A backward pass under
    gradient checkpointing belongs inside too: it runs the layers again.

    Args:
        model: a causal LM of transformers, or the PEFT model around it.
        segments: what to look at.
        sums: receives the weights.
        packed: the line is packed: pass its offsets to the model, as the scorer does.
        layers: all that have softmax attention, the middle share of them, or their numbers.
        heads: all, or their numbers.
        cells: weights computed at once.

    Raises:
        ConfigError: the model, a layer or a head cannot be watched.
    """
    owner = cast(Any, model)
    if packed:
        check_cuttable(model)
    if cells < 1:
        raise ConfigError(f"cells={cells}: at least one weight must be computed at once")
    chosen = choose_layers(owner.config, layers)
    watch = _Watch(segments, sums, chosen, choose_heads(owner.config, heads), cells)
    before, name = owner.config._attn_implementation, WATCHED_ROWS if packed else WATCHED
    owner.set_attn_implementation(name)
    if owner.config._attn_implementation != name:
        raise ConfigError(
            f"{owner.config.model_type} computes attention without transformers' registry of attention "
            "functions: its rows cannot be watched"
        )
    token = _ACTIVE.set(watch)
    try:
        yield
    finally:
        _ACTIVE.reset(token)
        owner.set_attn_implementation(before)
    missing = sorted(set(chosen) - watch.seen)
    if missing:
        raise ConfigError(
            f"layers {missing} of this {owner.config.model_type} showed no attention weights: name "
            "those that have softmax attention, and run one forward pass inside"
        )


def choose_layers(config: Any, layers: Layers) -> tuple[int, ...]:
    """Numbers of the layers to watch, ascending.

    Args:
        config: of the model.
        layers: as in :func:`watching`.

    Raises:
        ConfigError: there are no such layers.
    """
    text = config.get_text_config()
    count = int(text.num_hidden_layers)
    kinds = list(getattr(text, "layer_types", None) or ["full_attention"] * count)
    usable = [n for n, kind in enumerate(kinds) if "attention" in kind and "linear" not in kind]
    if isinstance(layers, float) and 0 < layers <= 1:
        middle = max(1, round(layers * len(usable)))
        first = (len(usable) - middle) // 2
        return tuple(usable[first : first + middle])
    if layers == "all" and usable:
        return tuple(usable)
    if isinstance(layers, str | int | float) or not layers:
        raise ConfigError(
            f"layers={layers!r}: give 'all', a share in (0, 1] as a float, or numbers of layers; this "
            f"{config.model_type} has {len(usable)} with softmax attention"
        )
    numbers = {n + count if n < 0 else n for n in layers}
    if numbers - set(usable):
        raise ConfigError(f"layers={list(layers)}: those with softmax attention are {usable}")
    return tuple(sorted(numbers))


def choose_heads(config: Any, heads: Heads) -> list[int] | None:
    """Numbers of the query heads to watch, None for all.

    Raises:
        ConfigError: there are no such heads.
    """
    if heads == "all":
        return None
    count = int(config.get_text_config().num_attention_heads)
    if isinstance(heads, str) or not heads or not all(0 <= head < count for head in heads):
        raise ConfigError(f"heads={heads!r}: give 'all' or numbers of heads from 0 to {count - 1}")
    return sorted(set(heads))
