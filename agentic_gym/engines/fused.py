"""A leaner forward pass for decoders of the Llama kind: Llama, Qwen2, Qwen3.

With a small model most of a step on a CPU is not arithmetic but calls: some 75 tensor operations a layer in
``transformers``, 18 here. The same function is computed, from the same weights, rearranged:

- the weight of each norm is folded into the matrix behind it;
- query, key and value are one matrix, gate and up another;
- the rows of query and key are permuted so that the two coordinates that rotary embedding turns are
  neighbours: the rotation is one complex product (a permutation of both leaves q·k as it is).

Sums are taken in another order, so results differ in the last bits; the engine's probe compares them with
the plain forward pass before anything is served.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from agentic_gym.engines.ragged import RaggedBatch

_FAMILIES = frozenset({"LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"})
_STATIC_ROPE = frozenset({"default", "linear", "llama3", "yarn"})


class FusedDecoder:
    """Rearranged weights of a causal LM and the forward pass over them.

    Args:
        model: of a kind that :meth:`supports`; its weights are read by :meth:`refresh`.
        max_context: positions that will be used.
    """

    def __init__(self, model: Any, max_context: int) -> None:
        self._model = model
        config = model.config
        first = model.model.layers[0].self_attn
        self._size = int(first.head_dim)
        self._heads = int(config.num_attention_heads)
        self._kv_heads = int(config.num_key_value_heads)
        self._scale = float(first.scaling)
        self._eps = float(config.rms_norm_eps)
        self._normed_heads = hasattr(first, "q_norm")
        half = self._size // 2
        self._pairs = torch.stack([torch.arange(half), torch.arange(half) + half], dim=1).flatten()
        self._max_context = max_context
        self.refresh()

    @staticmethod
    def supports(model: Any) -> bool:
        """Whether this pass computes what the model does."""
        config = model.config
        rope = getattr(config, "rope_parameters", None) or {}
        return (
            type(model).__name__ in _FAMILIES
            and config.hidden_act == "silu"
            and rope.get("rope_type", "default") in _STATIC_ROPE
            and not getattr(config, "mlp_bias", False)
            and model.model.layers[0].self_attn.o_proj.bias is None
            and model.dtype == torch.float32
        )

    @torch.no_grad()
    def refresh(self) -> None:
        """Reads the model's weights anew."""
        model = self._model.model
        positions = torch.arange(self._max_context, device=model.embed_tokens.weight.device)
        cos, sin = model.rotary_emb(model.embed_tokens.weight, positions[None])
        half = self._size // 2
        self._turn = torch.complex(cos[0, :, :half], sin[0, :, :half])[:, None]
        self._layers = [self._layer(layer) for layer in model.layers]
        self._head = (self._model.lm_head.weight * model.norm.weight).t().contiguous()

    def forward(self, input_ids: Tensor, batch: RaggedBatch) -> Tensor:
        """Logits of each sequence's last token.  # [N] -> [sequences, vocabulary]"""
        x = F.embedding(input_ids, self._model.model.embed_tokens.weight)
        turn = self._turn[batch.positions]
        heads, kv_heads, size = self._heads, self._kv_heads, self._size
        last = len(self._layers) - 1
        for index, layer in enumerate(self._layers):
            qkv, bias, head_norm, out, gate_up, down = layer
            normed = F.rms_norm(x, x.shape[-1:], eps=self._eps)
            projected = torch.mm(normed, qkv) if bias is None else torch.addmm(bias, normed, qkv)
            projected = projected.view(-1, heads + 2 * kv_heads, size)
            turned = projected[:, : heads + kv_heads]
            if head_norm is not None:
                turned = F.rms_norm(turned, (size,), eps=self._eps) * head_norm
            pairs = torch.view_as_complex(turned.reshape(*turned.shape[:2], size // 2, 2))
            turned = torch.view_as_real(pairs * turn).flatten(2)
            attended = batch.attend(
                index,
                turned[:, :heads],
                turned[:, heads:],
                projected[:, heads + kv_heads :],
                self._scale,
            )
            if index == last:  # from here on only the last token of each sequence counts
                x, attended = x[batch.last], attended[batch.last]
            x = torch.addmm(x, attended, out)
            gate, up = torch.mm(F.rms_norm(x, x.shape[-1:], eps=self._eps), gate_up).chunk(
                2, dim=-1
            )
            x = torch.addmm(x, F.silu(gate).mul_(up), down)
        return torch.mm(F.rms_norm(x, x.shape[-1:], eps=self._eps), self._head)

    def _layer(self, layer: Any) -> tuple[Any, ...]:
        attention, mlp = layer.self_attn, layer.mlp
        projections = (attention.q_proj, attention.k_proj, attention.v_proj)
        matrices = [
            self._permuted(attention.q_proj.weight),
            self._permuted(attention.k_proj.weight),
            attention.v_proj.weight,
        ]
        qkv = torch.cat(matrices) * layer.input_layernorm.weight
        bias = None
        if projections[0].bias is not None:
            q, k, v = (projection.bias for projection in projections)
            bias = torch.cat([self._permuted(q), self._permuted(k), v])
        head_norm = None
        if self._normed_heads:
            q, k = attention.q_norm.weight[self._pairs], attention.k_norm.weight[self._pairs]
            head_norm = torch.cat(
                [q.expand(self._heads, -1), k.expand(self._kv_heads, -1)]
            ).contiguous()
        gate_up = torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight])
        gate_up = gate_up * layer.post_attention_layernorm.weight
        return (
            qkv.t().contiguous(),
            bias,
            head_norm,
            attention.o_proj.weight.t().contiguous(),
            gate_up.t().contiguous(),
            mlp.down_proj.weight.t().contiguous(),
        )

    def _permuted(self, rows: Tensor) -> Tensor:
        """Brings the two coordinates of each rotation together, in every head."""
        by_head = rows.view(-1, self._size, *rows.shape[1:])
        return by_head[:, self._pairs].reshape(rows.shape)
