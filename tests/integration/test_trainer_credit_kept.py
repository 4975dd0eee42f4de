"""From the trainer's loss to the report: the credit that an update hands over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from agentic_gym.rewards.credit.plan import make_credit
from agentic_gym.trainers import losses
from agentic_gym.trainers.config import AgenticPPOConfig
from agentic_gym.trainers.ppo_trainer import AgenticPPOTrainer
from agentic_gym.trainers.source import RecordedSource
from agentic_gym.types import Outcome, TokenStream, Trajectory, Turn

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]

VOCAB = 32


def trajectory(number: int) -> Trajectory:
    rng = np.random.default_rng(number)
    count = int(rng.integers(3, 6))
    sampled = np.asarray([False] * 4 + [True, True, False] * count)
    stream = TokenStream(
        ids=rng.integers(0, VOCAB, len(sampled)).astype(np.int32),
        sampled=sampled,
        logprobs=np.where(sampled, -np.log(VOCAB), 0).astype(np.float32),
        versions=np.where(sampled, 0, -1).astype(np.int32),
        turns=np.asarray([-1] * 4 + np.repeat(np.arange(count), 3).tolist(), np.int32),
    )
    turns = (Turn("a", "o", -0.1),) * (count - 1) + (Turn("a", "o", float(number % 2)),)
    return Trajectory(
        f"t{number}",
        "k",
        f"g{number // 4}",
        number,
        "p",
        turns,
        stream,
        Outcome.FAILED,
        True,
        False,
    )


@pytest.mark.parametrize("name", ["turn_gae", "outcome+group"])
def test_what_is_handed_over_is_what_the_loss_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    given: list[float] = []
    term = losses.policy_term

    def listening(*arguments: Any, **settings: Any) -> Any:
        given.extend(arguments[3].tolist())
        return term(*arguments, **settings)

    monkeypatch.setattr(losses, "policy_term", listening)
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=VOCAB, hidden_size=16, intermediate_size=16, num_hidden_layers=1,
            num_attention_heads=2, num_key_value_heads=1, head_dim=8, tie_word_embeddings=True,
        )
    )  # fmt: skip
    plan = make_credit(name)
    args = AgenticPPOConfig(
        output_dir=str(tmp_path), max_steps=1, minibatch_size=3, ppo_epochs=1, save_strategy="no",
        use_cpu=True, value_warmup_updates=0, advantage=plan.estimator,  # type: ignore[arg-type]
    )  # fmt: skip
    broken = Trajectory(
        "broken", "k", "g0", 0, "p", (), None, Outcome.INFRA_ERROR, False, False, error="gone"
    )
    source = RecordedSource([[*map(trajectory, range(8)), broken]])
    AgenticPPOTrainer(model, args, source, credit=plan).train()
    (update,) = source.updates
    assert list(update.credit) == [f"t{n}" for n in range(8)]
    kept = np.concatenate([credit.advantages for credit in update.credit.values()])
    assert np.abs(kept).max() > 0.1
    np.testing.assert_array_equal(np.sort(kept), np.sort(np.asarray(given, np.float32)))
    rewards = [credit.rewards for credit in update.credit.values()]
    late = sum(abs(float(r[-1])) for r in rewards)
    whole = sum(float(np.abs(r).sum()) for r in rewards)
    assert update.metrics["late_credit_share"] == pytest.approx(late / whole)
