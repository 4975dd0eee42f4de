"""The policy inside the trainer: its weights as others know them, its files, its log-probabilities.

Weights leave the trainer under the names that the causal LM has on disk: the value head is left out and
LoRA is merged in on the way, without touching the trained tensors (merging in place and back would
change their last bits, and with them an exact resume).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from agentic_gym.engines.models import without_progress_bars
from agentic_gym.errors import CheckpointError, ConfigError
from agentic_gym.trainers.batching import Layout, Row, collate
from agentic_gym.trainers.scoring import Scorer
from agentic_gym.trainers.value_head import find

VALUE_HEAD_FILE = "value_head.safetensors"
ADAPTER_FOLDER = "adapter"


class TrainedPolicy:
    """A causal LM with a value head, with or without LoRA.

    Args:
        model: as trained: the causal LM, or the PEFT model around it.
        names: of the causal LM's state, before value head and LoRA were added.
        layout: how tokens are laid out.
        temperature: at which tokens are sampled.
    """

    def __init__(
        self, model: nn.Module, names: Sequence[str], *, layout: Layout, temperature: float
    ) -> None:
        self.model = model
        self._names = tuple(names)
        self._layout = layout
        self._scorer = Scorer(model, temperature=temperature)

    @property
    def is_peft(self) -> bool:
        """Whether LoRA is trained instead of the weights."""
        return hasattr(self.model, "peft_config")

    @property
    def causal_lm(self) -> Any:
        """The transformers model itself."""
        return self.model.get_base_model() if self.is_peft else self.model  # type: ignore[operator]

    def weights(self) -> Mapping[str, Tensor]:
        """Tensors by the names on disk. Unmerged ones share memory with the trained ones."""
        lm = self.causal_lm
        state = lm.state_dict()
        return {name: state[name] if name in state else _merged(lm, name) for name in self._names}

    @torch.no_grad()
    def logprobs(self, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> list[float]:
        """Log-probability of each token after the prompt, at the sampling temperature."""
        ids = np.asarray([*prompt_ids, *token_ids], dtype=np.int64)
        row = Row(ids, np.arange(len(prompt_ids), len(ids)), 0)
        device = next(self.model.parameters()).device
        batch = collate([row], layout=self._layout, device=device)
        return cast(list[float], self._scorer(self.model, batch).logprobs.tolist())

    def save(self, folder: Path) -> None:
        """Writes the merged policy, the value head and (with LoRA) the adapter."""
        with without_progress_bars():
            self.causal_lm.save_pretrained(
                folder, state_dict={name: t.contiguous() for name, t in self.weights().items()}
            )
        head = {name: t.contiguous() for name, t in find(self.model).state_dict().items()}
        save_file(head, folder / VALUE_HEAD_FILE)
        if self.is_peft:
            cast(Any, self.model).save_pretrained(
                folder / ADAPTER_FOLDER, save_embedding_layers=False
            )

    def load(self, folder: Path) -> None:
        """Loads what :meth:`save` wrote.

        Raises:
            CheckpointError: files are missing, or of another model.
        """
        head = folder / VALUE_HEAD_FILE
        if not head.is_file():
            raise CheckpointError(
                f"{folder} has no {VALUE_HEAD_FILE}: it is no checkpoint of this trainer. "
                "To start from its policy, give the folder as the model instead."
            )
        find(self.model).load_state_dict(load_file(head))
        if self.is_peft:
            self._load_adapter(folder)
        else:
            self._load_weights(folder)

    def _load_weights(self, folder: Path) -> None:
        state: dict[str, Tensor] = {}
        for file in sorted(folder.glob("model*.safetensors")):
            state.update(load_file(file))
        own = self.causal_lm.state_dict()
        tied = {own[name].data_ptr() for name in state if name in own}
        missing = [n for n in self._names if n not in state and own[n].data_ptr() not in tied]
        unknown = [name for name in state if name not in own]
        if missing or unknown:
            raise CheckpointError(
                f"{folder} is of another model: missing {missing[:3]}, unknown {unknown[:3]}"
            )
        self.causal_lm.load_state_dict(state, strict=False)

    def _load_adapter(self, folder: Path) -> None:
        from peft import set_peft_model_state_dict

        file = folder / ADAPTER_FOLDER / "adapter_model.safetensors"
        if not file.is_file():
            raise CheckpointError(
                f"{folder} has no {ADAPTER_FOLDER}: it was saved by full fine-tuning. "
                "Resume without peft_config, or give the folder as the model."
            )
        result = set_peft_model_state_dict(self.model, load_file(file))
        if result.unexpected_keys:
            raise CheckpointError(
                f"the adapter in {folder} has other layers than peft_config: "
                f"{result.unexpected_keys[:3]}"
            )


def _merged(lm: nn.Module, name: str) -> Tensor:
    """A weight that LoRA has wrapped, with its update added."""
    owner, _, leaf = name.rpartition(".")
    layer = cast(Any, lm.get_submodule(owner))
    tensor = cast(Tensor, getattr(layer.base_layer, leaf)).detach()
    if leaf != "weight":
        return tensor
    for adapter in layer.active_adapters:
        tensor = tensor + layer.get_delta_weight(adapter).detach().to(tensor.dtype)
    return tensor


def add_lora(model: nn.Module, config: Any, seed: int) -> nn.Module:
    """Wraps a causal LM in LoRA, with initial weights that depend on the seed alone.

    Raises:
        ConfigError: an adapter that is not LoRA, or one that trains whole modules beside it.
    """
    from peft import LoraConfig, get_peft_model

    if not isinstance(config, LoraConfig) or config.modules_to_save:
        raise ConfigError(
            "peft_config must be a LoraConfig without modules_to_save: other adapters cannot be merged "
            "into the weights that the engine serves"
        )
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        # peft 0.21 asks transformers 5.24 for a property that it is about to rename.
        warnings.simplefilter("ignore", FutureWarning)
        torch.manual_seed(seed)
        return cast(nn.Module, get_peft_model(model, config))


def disable_dropout(model: nn.Module) -> None:
    """Switches dropout off everywhere: with it, the ratio of a policy to itself would not be 1.

    Models keep its rate in a module, or under a name of their own (``attention_dropout``, ``layerdrop`` …).
    """
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        for name, value in vars(module).items():
            if "drop" in name and isinstance(value, float):
                setattr(module, name, 0.0)
