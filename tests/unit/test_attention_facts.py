"""Attention facts: what is asked for is what the whole computation gives, and nothing else is there."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

from agentic_gym.errors import ConfigError
from agentic_gym.rewards.credit.base import AttentionFacts, AttentionNeed, batch_of
from agentic_gym.rewards.credit.plan import CreditPlan, make_credit
from agentic_gym.trainers.attention_facts import attention_facts
from agentic_gym.trainers.scoring import prepare_model
from agentic_gym.types import Outcome, TokenStream, Trajectory, Turn

VOCAB, POISON = 29, 28
SHAPE: dict[str, Any] = {
    "vocab_size": VOCAB, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 64,
}  # fmt: skip
KINDS: dict[str, Callable[[], Any]] = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SHAPE)),
    "qwen3": lambda: Qwen3ForCausalLM(Qwen3Config(**SHAPE)),
}
FIELDS = {
    "deciding": AttentionNeed.DECIDING,
    "turns": AttentionNeed.TURNS,
    "reach": AttentionNeed.INFLUENCE,
    "influence": AttentionNeed.INFLUENCE,
}
SINGLE = (AttentionNeed.DECIDING, AttentionNeed.TURNS, AttentionNeed.INFLUENCE)
NEEDS = [
    AttentionNeed(sum(need.value for need in some))
    for count in (1, 2, 3)
    for some in combinations(SINGLE, count)
]


@cache
def build(kind: str) -> Any:
    torch.manual_seed(3)
    model = KINDS[kind]().eval()
    prepare_model(model, "packed")
    return model


def trajectory(
    number: int, made: list[int], *, edited: int | None = None, last: int | None = None
) -> Trajectory:
    """One of so many sampled tokens a turn, each turn but the last with two observed ones.

    Args:
        number: of it.
        made: sampled tokens of each turn; some turns were ended before a token.
        edited: turn that edits; None: the last one with tokens decides.
        last: id of the very last token.
    """
    sampled, of_turn = [False] * 3, [-1] * 3
    for turn, count in enumerate(made):
        sampled += [True] * count + [False] * 2 * (turn < len(made) - 1)
        of_turn += [turn] * (count + 2 * (turn < len(made) - 1))
    ids = np.random.default_rng(number).integers(0, POISON, len(sampled))
    if last is not None:
        ids[-2] = last  # the token before the last is the last that is read
    mask = np.asarray(sampled)
    stream = TokenStream(
        ids=ids.astype(np.int32),
        sampled=mask,
        logprobs=np.where(mask, -1.0, 0.0).astype(np.float32),
        versions=np.zeros(len(mask), np.int32),
        turns=np.asarray(of_turn, np.int32),
    )
    turns = tuple(
        Turn("a", "o", 0.1 * k - 0.2, info={"edited": {"path": "m.py"}} if k == edited else {})
        for k in range(len(made))
    )
    return Trajectory(
        f"t{number}", "k", "g", 0, "p", turns, stream, Outcome.FAILED, True, False
    )  # fmt: skip


BATCH = (
    trajectory(0, [3, 4, 2], edited=1),
    trajectory(1, [2, 0, 5, 3]),
    trajectory(2, [4]),
    trajectory(3, [1, 2, 0], edited=0),
    trajectory(4, [12, 1, 6], edited=2),
)


def facts_of(kind: str, needs: bool | AttentionNeed, layout: Any) -> list[AttentionFacts]:
    found = attention_facts(
        build(kind), BATCH, needs=needs, layout=layout, layers=1.0, token_budget=40
    )
    known = [facts for facts in found if facts is not None]
    assert len(known) == len(BATCH)
    return known


@cache
def whole(kind: str, layout: str) -> list[AttentionFacts]:
    return facts_of(kind, True, layout)


# ---- the same numbers ------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["packed", "sorted", "plain"])
@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("need", NEEDS, ids=str)
def test_what_is_asked_for_is_what_the_whole_computation_gives(
    kind: str, need: AttentionNeed, layout: str
) -> None:
    for mine, full in zip(facts_of(kind, need, layout), whole(kind, layout), strict=True):
        for name, of in FIELDS.items():
            if of in need:
                np.testing.assert_allclose(getattr(mine, name), getattr(full, name), atol=1e-6)
            else:
                with pytest.raises(ConfigError, match=f"no '{name}'.*AttentionNeed.{of.name}"):
                    getattr(mine, name)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_numbers_tell_tokens_and_turns_apart(kind: str) -> None:
    """Or the comparison above would compare zeros."""
    facts = whole(kind, "packed")
    for one, edited in zip(BATCH, (1, 3, 0, 0, 2), strict=True):
        assert one.tokens is not None
        turn = one.tokens.turns[one.tokens.sampled]
        mine = facts[BATCH.index(one)]
        assert (mine.deciding[turn < edited] > 1e-3).all()
        assert not mine.deciding[turn >= edited].any()
        assert (mine.reach > 0).all()
    assert (facts[4].influence[:3] > 0).all()
    assert (facts[0].turns[np.tril_indices(3, -1)] > 1e-2).all()


def test_nothing_is_asked_and_nothing_runs() -> None:
    class Refuses(nn.Module):
        def forward(self) -> None:
            raise AssertionError

    found = attention_facts(Refuses(), BATCH, needs=False)
    assert len(found) == len(BATCH)
    with pytest.raises(ConfigError, match="no 'deciding'"):
        _ = found[0].deciding  # type: ignore[union-attr]


def test_nothing_behind_the_deciding_tokens_is_computed_for_them() -> None:
    torch.manual_seed(3)
    model = KINDS["qwen3"]()
    prepare_model(model, "packed")
    batch = [trajectory(0, [3, 4, 2], edited=1, last=POISON)]
    (before,) = attention_facts(model, batch, needs=AttentionNeed.DECIDING)
    with torch.no_grad():
        model.get_input_embeddings().weight[POISON] = torch.nan
    assert attention_facts(model, batch) == [None]
    assert attention_facts(model, batch, needs=AttentionNeed.TURNS) == [None]
    (after,) = attention_facts(model, batch, needs=AttentionNeed.DECIDING)
    assert before is not None
    assert after is not None
    np.testing.assert_array_equal(before.deciding, after.deciding)


# ---- who asks for what -----------------------------------------------------------------------------


class Greedy:
    """A part of somebody else, that says as ever that it needs attention."""

    needs_attention = True

    def modify(self, batch: Any, advantages_N: Any) -> Any:
        return advantages_N + sum(facts.turns.sum() for facts in batch.attention)


class Modest(Greedy):
    """The same, that says what it reads."""

    needs_attention = AttentionNeed.TURNS  # type: ignore[assignment]


class Unclear(Greedy):
    needs_attention = "turns"  # type: ignore[assignment]


class Silent:
    def modify(self, batch: Any, advantages_N: Any) -> Any:
        return advantages_N


def test_a_plan_asks_for_what_its_parts_read() -> None:
    def need(name: str) -> AttentionNeed:
        return make_credit(name).needs_attention

    assert need("outcome+process+turn_gae") is AttentionNeed.NOTHING
    assert need("attention+turn_gae") is AttentionNeed.DECIDING
    assert need("causal_attention") is AttentionNeed.TURNS
    assert need("group+preplan_anchor") is AttentionNeed.INFLUENCE
    assert need("attention+causal_attention") == AttentionNeed.DECIDING | AttentionNeed.TURNS
    assert need(f"attention+{__name__}:Modest") == AttentionNeed.DECIDING | AttentionNeed.TURNS
    assert need(f"attention+{__name__}:Greedy") is AttentionNeed.EVERYTHING


@pytest.mark.parametrize("name", ["Unclear", "Silent"])
def test_a_part_that_does_not_say_is_refused(name: str) -> None:
    said = {"Unclear": "'turns'", "Silent": "None"}[name]
    words = f"{__name__}:{name}': needs_attention={said} must be True (everything), False"
    with pytest.raises(ConfigError, match=re.escape(words)):
        make_credit(f"{__name__}:{name}")


@pytest.mark.parametrize(
    "name",
    ["attention", "causal_attention", "preplan_anchor", "attention+causal_attention"],
)
def test_parts_read_no_more_than_they_declare(name: str) -> None:
    plan = make_credit(name)

    def given(needs: bool | AttentionNeed, plan: CreditPlan = plan) -> tuple[Any, Any]:
        batch = batch_of(BATCH, attention=facts_of("qwen3", needs, "packed"))
        advantages = np.linspace(-1, 2, len(batch.turns))
        return plan.rewards(batch), plan.modify(batch, advantages)

    for mine, full in zip(given(plan.needs_attention), given(True), strict=True):
        np.testing.assert_allclose(mine, full, atol=1e-6)
    left_out = AttentionNeed.EVERYTHING & ~plan.needs_attention
    with pytest.raises(ConfigError, match="for which no part of the credit asked"):
        given(left_out)


def test_true_goes_on_meaning_everything() -> None:
    assert AttentionNeed.of(True) is AttentionNeed.EVERYTHING
    assert AttentionNeed.of(False) is AttentionNeed.NOTHING
    assert AttentionNeed.of(AttentionNeed.TURNS) is AttentionNeed.TURNS
    with pytest.raises(ConfigError, match="needs_attention=1 must be True"):
        AttentionNeed.of(1)  # type: ignore[arg-type]


def test_facts_travel_between_processes() -> None:
    sent = AttentionFacts(np.arange(3.0), influence=np.ones(3))
    got = pickle.loads(pickle.dumps(sent))
    np.testing.assert_array_equal(got.deciding, sent.deciding)
    np.testing.assert_array_equal(got.influence, sent.influence)
    with pytest.raises(ConfigError, match="no 'turns'"):
        _ = got.turns
