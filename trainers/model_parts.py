"""Parts of a causal LM, by the names of its parameters: block, router, embedding, head, value head. No torch.

Gradients are recorded by part (:mod:`~agentic_gym.trainers.gradient_norms`), so that what exploded can be
told from what it dragged along (docs/diagnosis.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

PREFIX = "grad_norm_layer/"
"""Of the metrics that hold the norm of a part's gradient."""

_BLOCK = re.compile(r"(?:^|\.)(?:layers|h|blocks|block)\.(\d+)\.")
_ROUTER = re.compile(r"(?:^|\.)(?:router|gate|shared_expert_gate|wg)(?:\.|$)")
_EMBEDDING = re.compile(r"(?:^|\.)(?:embed_tokens|embed_in|wte|wpe|word_embeddings)\.")
_HEAD = re.compile(r"(?:^|\.)(?:lm_head|embed_out)\.")
_VALUE_HEAD = re.compile(r"(?:^|\.)v_head\.")


def part_of(name: str) -> str:
    """Which part a parameter belongs to, by its name, also under LoRA or data parallelism.

    A router is told apart from its block, since it overflows by itself. Tied weights have one name, that of
    the embedding.

    >>> part_of("model.layers.3.mlp.gate.weight"), part_of("model.layers.3.mlp.gate_proj.weight")
    ('router.3', 'layer.3')
    >>> part_of("v_head.inner.weight"), part_of("model.norm.weight")
    ('value_head', 'rest')
    """
    if _VALUE_HEAD.search(name):
        return "value_head"
    block = _BLOCK.search(name)
    if block is not None:
        kind = "router" if _ROUTER.search(name) else "layer"
        return f"{kind}.{block[1]}"
    if _EMBEDDING.search(name):
        return "embedding"
    return "head" if _HEAD.search(name) else "rest"


def began_in(parts: Iterable[str]) -> str:
    """Of the parts whose gradient is not finite, the one that the backward pass came to first.

    It runs from the output to the embedding and carries a NaN with it, so all that lies below has it too.

    Args:
        parts: names of :func:`part_of`, at least one.

    >>> began_in(["embedding", "layer.0", "layer.1", "router.1"])
    'router.1'
    """
    return min(parts, key=_backward_order)


def _backward_order(part: str) -> tuple[int, int, bool]:
    kind, _, number = part.partition(".")
    if number:
        return 2, -int(number), kind != "router"
    # The value head reads the trunk and sends nothing back into it: it is asked only where it is alone.
    return {"head": 0, "rest": 1, "embedding": 3}.get(kind, 4), 0, True
