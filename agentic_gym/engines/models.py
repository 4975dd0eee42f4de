"""The engine's own copy of a causal language model: checked on loading, checked after.

:class:`ServedModel` builds the model anew from its configuration with the ragged attention of
:mod:`agentic_gym.engines.ragged`, so that training never disturbs what is being sampled, and refuses a
model for which this would not be exact: by the rules that no short test can see (sliding windows),
and by :func:`probe`, which compares log-probabilities with the plain forward pass.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from agentic_gym.engines.fused import FusedDecoder
from agentic_gym.engines.kv_cache import KVStore
from agentic_gym.engines.ragged import RaggedBatch, Segment, register_attention
from agentic_gym.errors import ConfigError, EngineError

_PROBE_LENGTH = 12


class ServedModel:
    """A model to run ragged batches through.

    Args:
        model: any ``transformers`` causal LM with full attention; copied. Submodules that the
            architecture does not have (a value head) are left out.
        max_context: positions that will be used; a sliding window must not be shorter.
        dtype: of weights and cache.
        device: where to run.

    Raises:
        ConfigError: the model cannot be served exactly.
    """

    def __init__(
        self, model: Any, *, max_context: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        config = copy.deepcopy(model.config)
        _refuse_unservable(config, max_context)
        self.dtype, self.device = dtype, device
        self.kind = str(config.model_type)
        self.vocab_size = int(config.get_text_config().vocab_size)
        self.num_layers = int(config.get_text_config().num_hidden_layers)
        self._model = _build(config, register_attention(), dtype, device)
        self._fused: FusedDecoder | None = None
        given = model.state_dict()
        self.load({name: given[name] for name in self._model.state_dict() if name in given})
        if FusedDecoder.supports(self._model):
            self._fused = FusedDecoder(self._model, max_context)
        probe(self)

    @property
    def fused(self) -> bool:
        """Whether the leaner forward pass of :mod:`agentic_gym.engines.fused` is used."""
        return self._fused is not None

    def forward(self, input_ids: Tensor, batch: RaggedBatch) -> Tensor:
        """Logits of each sequence's last token.

        Args:
            input_ids: the tokens of ``batch``, in its order.  # [N]

        Returns:
            [sequences, vocabulary]
        """
        if self._fused is not None:
            return self._fused.forward(input_ids, batch)
        output = self._model(
            input_ids=input_ids[None],
            position_ids=batch.positions[None],
            use_cache=False,
            logits_to_keep=batch.last,
            ragged=batch,
        )
        logits: Tensor = output.logits[0]
        return logits

    def plain_logits(self, input_ids: Tensor) -> Tensor:
        """Logits by the model's own forward pass, without cache.  # [T] -> [T, vocabulary]"""
        plain = _build(copy.deepcopy(self._model.config), "eager", self.dtype, self.device)
        plain.load_state_dict(self._model.state_dict())
        logits: Tensor = plain(input_ids=input_ids[None], use_cache=False).logits[0]
        return logits

    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Copies weights in, all or nothing.

        Args:
            weights: a state dict. A tied output matrix may be left out.

        Raises:
            EngineError: a name is missing or unknown, or a shape is wrong; nothing was changed.
        """
        own = self._model.state_dict()
        tied = _aliases(own)
        unknown = sorted(set(weights) - set(own))
        missing = sorted(
            name for name in own if name not in weights and tied.get(name, name) not in weights
        )
        if unknown or missing:
            raise EngineError(
                f"weights do not fit the served model: unknown {unknown[:5]}, missing {missing[:5]}. "
                "Publish the causal LM's own state dict (adapters merged, value head left out)."
            )
        for name, tensor in weights.items():
            if tensor.shape != own[name].shape:
                raise EngineError(
                    f"weights do not fit the served model: {name} has shape {tuple(tensor.shape)}, "
                    f"expected {tuple(own[name].shape)}"
                )
            alias = tied.get(name, name)
            if alias != name and alias in weights and not _same(tensor, weights[alias]):
                raise EngineError(f"{name} and {alias} are tied in the served model but differ")
        with torch.no_grad():
            for name, tensor in weights.items():
                own[name].copy_(tensor)
        if self._fused is not None:
            self._fused.refresh()


def probe(model: ServedModel) -> None:
    """Compares ragged logits with a plain forward pass, on a few tokens in two parts.

    The largest difference must be below 1e-4 of the logits' standard deviation (a tenth of it in 16-bit
    types), so that a model whose weights are still small is checked as sharply as a trained one.

    Raises:
        ConfigError: they differ: the model does something that the ragged attention does not know.
    """
    ids = torch.arange(_PROBE_LENGTH, device=model.device) * 7 % model.vocab_size
    half = _PROBE_LENGTH // 2
    store = KVStore(model.num_layers, 3, _PROBE_LENGTH, model.device)
    kind: dict[str, Any] = {"dtype": model.dtype, "device": model.device}
    try:
        with torch.inference_mode():
            plain = model.plain_logits(ids).float()
            got = []
            for decode, parts, tokens in (
                ([], [Segment(2, 0, half), Segment(0, 0, half)], torch.cat([ids[:half]] * 2)),
                ([half], [Segment(2, half, half)], torch.cat([ids[half : half + 1], ids[half:]])),
            ):
                batch = RaggedBatch(store, decode, parts, **kind)
                got.append(model.forward(tokens, batch).float())
    except Exception as error:
        raise ConfigError(
            f"the transformers engine cannot run {model.kind}: {error}. Use a decoder whose attention "
            "goes through transformers.AttentionInterface (Llama, Qwen2, Qwen3, SmolLM …)."
        ) from error
    want = torch.stack([plain[half - 1], plain[half - 1], plain[half], plain[-1]])
    difference = float((torch.cat(got) - want).abs().max() / want.std().clamp_min(1e-9))
    if not difference <= (1e-4 if model.dtype in (torch.float32, torch.float64) else 0.1):
        raise ConfigError(
            f"the transformers engine cannot serve {model.kind} exactly: its logits differ by "
            f"{difference:.2g} standard deviations from the model's own forward pass. Use a decoder "
            "with plain full attention, or check the weights for NaN."
        )


def _build(config: Any, attention: str, dtype: torch.dtype, device: torch.device) -> nn.Module:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_config(config, attn_implementation=attention, dtype=dtype)
    served: nn.Module = model.to(device).eval().requires_grad_(False)
    return served


def _refuse_unservable(config: Any, max_context: int) -> None:
    text = config.get_text_config()
    kinds = set(getattr(text, "layer_types", None) or ["full_attention"])
    unknown = kinds - {"full_attention", "sliding_attention"}
    if unknown or getattr(config, "is_encoder_decoder", False):
        raise ConfigError(
            f"the transformers engine serves decoders with full attention; {config.model_type} has "
            f"{sorted(unknown) or 'an encoder'}. Use another engine (vllm) for it."
        )
    window = getattr(text, "sliding_window", None)
    slides = "sliding_attention" in kinds or (
        getattr(text, "use_sliding_window", True) and not getattr(text, "layer_types", None)
    )
    if slides and window is not None and window < max_context:
        raise ConfigError(
            f"{config.model_type} attends to a window of {window} tokens, shorter than max_context="
            f"{max_context}. Set max_context to {window} or less, or use another engine (vllm)."
        )
    limit = getattr(text, "max_position_embeddings", None)
    if limit is not None and max_context > limit:
        raise ConfigError(f"max_context={max_context} is more than the model's {limit} positions")


def _aliases(state: Mapping[str, Tensor]) -> dict[str, str]:
    """Each later name of a shared tensor, with the first name of it."""
    first: dict[int, str] = {}
    names: dict[str, str] = {}
    for name, tensor in state.items():
        known = first.setdefault(tensor.data_ptr(), name)
        if known != name:
            names[name] = known
            names.setdefault(known, name)
    return names


def _same(a: Tensor, b: Tensor) -> bool:
    return a.data_ptr() == b.data_ptr() or torch.equal(a, b)


@contextmanager
def without_progress_bars() -> Iterator[None]:
    """Keeps transformers from drawing a bar for each file that it reads or writes."""
    from transformers.utils import logging

    enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if enabled:
            logging.enable_progress_bar()
