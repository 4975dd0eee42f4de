from typing import Any

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, OPTConfig, OPTForCausalLM, Qwen3Config
from transformers import Qwen3ForCausalLM as Qwen3

from agentic_gym.trainers.policy import disable_dropout

MODELS: dict[str, Any] = {
    "modules": lambda: GPT2LMHeadModel(
        GPT2Config(vocab_size=16, n_embd=16, n_layer=1, n_head=2, n_positions=16)
    ),
    "rates": lambda: OPTForCausalLM(
        OPTConfig(
            vocab_size=16, hidden_size=16, ffn_dim=16, num_hidden_layers=2, num_attention_heads=2,
            word_embed_proj_dim=16, max_position_embeddings=16, dropout=0.5, layerdrop=0.5,
        )
    ),
    "attention": lambda: Qwen3(
        Qwen3Config(
            vocab_size=16, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
            num_attention_heads=2, num_key_value_heads=1, head_dim=8, attention_dropout=0.5,
        )
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", MODELS)
@torch.no_grad()
def test_a_policy_is_the_same_in_every_pass_wherever_its_dropout_is_kept(kind: str) -> None:
    torch.manual_seed(0)
    model = MODELS[kind]().train()
    ids = torch.arange(8)[None]
    assert not torch.equal(model(ids).logits, model(ids).logits)
    disable_dropout(model)
    passes = [model(ids).logits for _ in range(4)]
    assert all(torch.equal(logits, passes[0]) for logits in passes)
