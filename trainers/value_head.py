"""The critic: a small network on the policy's own hidden states.

It is a submodule of the causal LM, so that one module is prepared, wrapped and moved, and it runs
inside the model's forward pass by a hook on the output layer. It reads *detached* hidden states by
default: in small models a value loss that flows through the trunk destroys the policy within a few
updates. It is never part of the saved policy (:func:`policy_state`).

A separate critic model was rejected: it doubles memory and forward passes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn

NAME = "v_head"
"""Attribute of the causal LM under which the head lives."""

VALUE_GROUP = "value_head"
"""Key of the optimiser's parameter group that holds the head."""


class ValueHead(nn.Module):
    """Two layers from hidden state to value; predicts 0 until trained.

    Args:
        hidden_size: width of the policy's hidden states.
        detach: keep the value loss out of the policy's trunk.
        dtype: of its weights; float32 also beside a bfloat16 policy.
    """

    def __init__(
        self, hidden_size: int, *, detach: bool = True, dtype: torch.dtype = torch.float32
    ) -> None:
        super().__init__()
        self.detach = detach
        self.inner = nn.Linear(hidden_size, hidden_size, dtype=dtype)
        self.outer = nn.Linear(hidden_size, 1, dtype=dtype)
        nn.init.zeros_(self.outer.weight)
        nn.init.zeros_(self.outer.bias)

    def forward(self, hidden: Tensor) -> Tensor:
        """Values of hidden states ``[..., H]``, as ``[...]``."""
        if self.detach:
            hidden = hidden.detach()
        hidden = hidden.to(self.inner.weight.dtype)
        return cast(Tensor, self.outer(torch.tanh(self.inner(hidden))).squeeze(-1))


def attach(model: nn.Module, *, detach: bool = True, seed: int = 0) -> ValueHead:
    """Gives a causal LM a value head. Attach before LoRA, then re-enable its gradient.

    Args:
        model: a transformers causal LM.
        detach: see :class:`ValueHead`.
        seed: of the head's initial weights; the global generator is left as it was.
    """
    output = cast(Any, model).get_output_embeddings()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        head = ValueHead(output.weight.shape[1], detach=detach)
    model.add_module(NAME, head.to(output.weight.device))
    return head


def find(model: nn.Module) -> ValueHead:
    """The value head of a model, however the model is wrapped.

    Raises:
        LookupError: there is none.
    """
    for module in model.modules():
        if isinstance(module, ValueHead):
            return module
    raise LookupError("the model has no value head: attach one first")


def is_value_parameter(name: str) -> bool:
    """Whether a parameter's name belongs to the value head."""
    return name.startswith(f"{NAME}.") or f".{NAME}." in name


def policy_state(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A state dict without the value head."""
    return {name: tensor for name, tensor in state.items() if not is_value_parameter(name)}
