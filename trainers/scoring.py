"""One forward pass of the policy over a micro-batch: log-probabilities, entropies, values.

Only the positions that predict a sampled token go through the output layer and the value head: a
hook on the output layer picks them from the hidden states, so this works for every causal LM of
transformers, under LoRA, gradient checkpointing and data parallelism, and in every layout.

Packed rows need attention within each row. ``sdpa_rows`` cuts the line at the offsets and calls
PyTorch's fused kernel on each row; a block mask over the whole line was rejected (quadratic in the
length of the line, twice as slow on a CPU). With ``flash_attention_2`` the same offsets drive its
own variable-length kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import AttentionInterface

from agentic_gym.errors import ConfigError
from agentic_gym.trainers.batching import Layout, MicroBatch
from agentic_gym.trainers.value_head import ValueHead, find

ROW_ATTENTION = "sdpa_rows"
"""Name of the attention of packed rows in transformers' registry."""

# Keyword arguments by which models of transformers 5 tell an attention function to change its scores.
_CHANGES_SCORES = ("softcap", "position_bias", "s_aux", "sinks", "indices", "block_indices")


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """What the policy says about sampled tokens.

    Attributes:
        logprobs: of each sampled token.  # [N]
        entropy: of the distribution that it was sampled from.  # [N]
        values: before each sampled token.  # [N]
        last_values: after each row's last token; empty unless asked for.  # [R]
    """

    logprobs: Tensor
    entropy: Tensor
    values: Tensor
    last_values: Tensor


def _row_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    *,
    cu_seq_lens_q: Tensor | None = None,
    sliding_window: int | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """Causal attention within each row; without offsets, within each line of the batch.

    Padded lines need no mask: padding stands on the right, where causality hides it.

    Raises:
        ConfigError: a row is longer than the layer's window, or the layer changes its scores.
    """
    changed = [name for name in _CHANGES_SCORES if others.get(name) is not None]
    if changed:
        raise ConfigError(
            f"layout='packed' needs plain attention; {type(module).__name__} changes its scores "
            f"({changed[0]}). Set layout='sorted' instead."
        )
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key = key.repeat_interleave(groups, dim=1)
        value = value.repeat_interleave(groups, dim=1)
    if cu_seq_lens_q is None:
        pieces = [(query, key, value)]
    else:
        sizes = cu_seq_lens_q.diff().tolist()
        cut = [torch.split(x, sizes, 2) for x in (query, key, value)]
        pieces = list(zip(*cut, strict=True))
    longest = max(q.shape[2] for q, _, _ in pieces)
    if sliding_window is not None and longest > sliding_window:
        raise ConfigError(
            f"a row has {longest} tokens, and {type(module).__name__} attends to a window of "
            f"{sliding_window}: layout='packed' has none. Set layout='sorted' instead."
        )
    outputs = [
        F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True, scale=scaling)
        for q, k, v in pieces
    ]
    joined = outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=2)
    return joined.transpose(1, 2), None


AttentionInterface.register(ROW_ATTENTION, _row_attention)


def check_cuttable(model: nn.Module) -> None:
    """Refuses a model whose attention cannot be cut into rows.

    Raises:
        ConfigError: says what is in the way.
    """
    config = cast(Any, model).config
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    if kinds != {"full_attention"} or getattr(config, "attn_logit_softcapping", None):
        raise ConfigError(
            f"layout='packed' needs plain full attention in every layer; this "
            f"{config.model_type} has {sorted(kinds)}. Set layout='sorted' instead."
        )


def prepare_model(model: nn.Module, layout: Layout) -> None:
    """Sets the attention that a layout needs.

    Raises:
        ConfigError: the model's attention cannot be cut into rows.
    """
    if layout == "packed":
        check_cuttable(model)
        if not str(cast(Any, model).config._attn_implementation).startswith("flash_attention"):
            cast(Any, model).set_attn_implementation(ROW_ATTENTION)


class Scorer:
    """Runs a model over micro-batches.

    Args:
        model: a causal LM with a value head, wrapped for training or not; the hook is set on its output
            embedding.
        temperature: at which tokens were sampled: logits are divided by it.
    """

    def __init__(self, model: nn.Module, *, temperature: float = 1.0) -> None:
        self._head: ValueHead = find(model)
        self._output = cast(nn.Module, cast(Any, model).get_output_embeddings())
        self._temperature = temperature
        self._select: Tensor | None = None
        self._values = torch.empty(0)

    def __call__(
        self,
        model: nn.Module,
        batch: MicroBatch,
        *,
        entropy_grad: bool = False,
        last: bool = False,
    ) -> Scores:
        """Scores the sampled tokens of a micro-batch.

        Args:
            model: the model to call: the one given at construction, or its wrapper.
            batch: laid out on the model's device.
            entropy_grad: let gradients flow through the entropy (costs memory).
            last: also compute the values after the rows' last tokens.
        """
        select = torch.cat([batch.select, batch.last]) if last else batch.select
        kwargs: dict[str, Any] = {}
        if batch.offsets is not None:
            kwargs = {
                "cu_seq_lens_q": batch.offsets,
                "cu_seq_lens_k": batch.offsets,
                "max_length_q": batch.longest,
                "max_length_k": batch.longest,
            }
        with self._selecting(select):
            logits = model(
                input_ids=batch.input_ids,
                attention_mask=batch.attention_mask,
                position_ids=batch.position_ids,
                use_cache=False,
                **kwargs,
            ).logits
        count = len(batch.select)
        scaled = logits.reshape(-1, logits.shape[-1])[:count].float()
        if self._temperature != 1.0:
            scaled = scaled / self._temperature
        normaliser = scaled.logsumexp(-1)
        chosen = scaled.gather(-1, batch.targets[:, None]).squeeze(-1)
        with torch.set_grad_enabled(entropy_grad and torch.is_grad_enabled()):
            probs = torch.exp(scaled - normaliser[:, None])
            entropy = normaliser - (probs * scaled).sum(-1)
        values = self._values
        return Scores(chosen - normaliser, entropy, values[:count], values[count:])

    @contextmanager
    def _selecting(self, select: Tensor) -> Iterator[None]:
        def pick(_: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            hidden = args[0]
            hidden = hidden.reshape(-1, hidden.shape[-1])[select]
            self._values = self._head(hidden)
            return (hidden[None], *args[1:])

        handle = self._output.register_forward_pre_hook(pick)
        try:
            yield
        finally:
            handle.remove()
