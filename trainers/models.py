"""Policies to train: a small decoder made from scratch, or any causal LM from a folder or name.

The small one is a Qwen3 in every respect but size, so that every engine, renderer and tool parser that
knows Qwen3 takes it as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentic_gym.engines.models import without_progress_bars
from agentic_gym.errors import CheckpointError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast


@dataclass(frozen=True, slots=True)
class DecoderShape:
    """Shape of the decoder made from scratch.

    Attributes:
        hidden: width of the residual stream.
        layers: number of blocks.
        heads: number of query heads.
        kv_heads: number of key/value heads (grouped-query attention).
        head_dim: width of one head.
        intermediate: width of the feed-forward layer.
        max_context: longest sequence, in tokens.
    """

    hidden: int = 192
    layers: int = 4
    heads: int = 6
    kv_heads: int = 3
    head_dim: int = 32
    intermediate: int = 512
    max_context: int = 2048


def make_decoder(
    tokenizer: PreTrainedTokenizerFast, shape: DecoderShape, *, seed: int
) -> PreTrainedModel:
    """A freshly initialised Qwen3 decoder in float32, embeddings tied.

    Args:
        tokenizer: gives the vocabulary and the special tokens.
        shape: its size.
        seed: of the initialisation; the global generator is left as it was.
    """
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        max_position_embeddings=shape.max_context,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.convert_tokens_to_ids("<|im_end|>"),
        pad_token_id=tokenizer.convert_tokens_to_ids("<|endoftext|>"),
        attention_dropout=0.0,
        dtype="float32",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model: PreTrainedModel = Qwen3ForCausalLM(config)
    return model


def load_policy(name_or_path: str | Path, **kwargs: Any) -> tuple[PreTrainedModel, Any]:
    """Loads a causal LM and its tokenizer from a folder, or by name where a hub is reachable.

    Args:
        name_or_path: a folder saved by ``save_pretrained``, or a model's name.
        kwargs: passed to ``AutoModelForCausalLM.from_pretrained``.

    Raises:
        CheckpointError: it cannot be loaded; says what was tried.
    """
    from transformers import AutoTokenizer

    with _explained(name_or_path, _WITH_TOKENIZER):
        _refuse_absent(name_or_path)
        tokenizer = AutoTokenizer.from_pretrained(str(name_or_path))
        model = _load(name_or_path, **kwargs)
    return model, tokenizer


def load_model(name_or_path: str | Path, **kwargs: Any) -> PreTrainedModel:
    """As :func:`load_policy`, without the tokenizer."""
    with _explained(name_or_path, "), or a model itself"):
        _refuse_absent(name_or_path)
        return _load(name_or_path, **kwargs)


def check_source(model: str) -> None:
    """Refuses a model that cannot be there, before any work; ``"starter"`` and ``"scratch"`` pass.

    Raises:
        CheckpointError: it is a folder that does not exist, or a name that cannot be looked up.
    """
    if model not in {"starter", "scratch"}:
        with _explained(model, _WITH_TOKENIZER):
            _refuse_absent(model)


_WITH_TOKENIZER = ", tokenizer files), 'starter' for the bundled model or 'scratch' for a new one"


def _refuse_absent(name_or_path: str | Path) -> None:
    """Raises ``OSError`` at once where transformers would try the hub again and again."""
    path, name = Path(name_or_path), str(name_or_path)
    if path.is_dir():
        return
    if path.exists():
        raise NotADirectoryError("it is a file, not a folder")
    # A name on the hub is "model" or "owner/model".
    is_folder = isinstance(name_or_path, Path) or name.startswith((".", "/", "~"))
    if is_folder or name.count("/") > 1 or ("/" in name and path.parent.is_dir()):
        raise FileNotFoundError("there is no such folder")
    import huggingface_hub
    from huggingface_hub.errors import HfHubHTTPError

    if isinstance(huggingface_hub.try_to_load_from_cache(name, "config.json"), str):
        return
    url = huggingface_hub.hf_hub_url(name, "config.json")
    try:
        huggingface_hub.get_hf_file_metadata(url, timeout=5)  # once; a download tries six times
    except HfHubHTTPError:
        return  # transformers says what the hub answered, without another try
    except Exception as error:  # of the HTTP client, or that offline mode forbids to ask
        raise ConnectionError(
            f"there is no such folder here, and the hub, which may have a model of this name, "
            f"cannot be reached ({error})"
        ) from error


def _load(name_or_path: str | Path, **kwargs: Any) -> PreTrainedModel:
    from transformers import AutoModelForCausalLM

    options = {"dtype": "float32", **kwargs}
    with without_progress_bars():
        model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(str(name_or_path), **options)
    return model


@contextmanager
def _explained(name_or_path: str | Path, more: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, KeyError) as error:
        first_line = (str(error).strip() or repr(error)).splitlines()[0].rstrip(".")
        raise CheckpointError(
            f"{str(name_or_path)!r} is not a causal LM that can be loaded here: {first_line}. "
            f"Give a folder written by save_pretrained (config.json, model.safetensors{more}."
        ) from error


def count_parameters(model: PreTrainedModel) -> int:
    """Number of parameters, tied ones once."""
    return sum(parameter.numel() for parameter in model.parameters())
