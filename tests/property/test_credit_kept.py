"""The credit that is kept is the credit that was trained on, whatever gave it and in whatever parts."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_gym.rewards.credit.plan import make_credit
from agentic_gym.store import RunStore
from agentic_gym.trainers.config import AgenticPPOConfig
from agentic_gym.trainers.experience import Experience
from agentic_gym.trainers.update_parts import Flat
from agentic_gym.types import Outcome, TokenStream, Trajectory, Turn


def make_trajectory(rng: np.random.Generator, number: int) -> Trajectory:
    turns, sampled, of_turn = [], [bool(rng.integers(2))], [0]
    for turn in range(int(rng.integers(1, 6))):
        made = int(rng.integers(0, 5)) if turn else int(rng.integers(1, 5))
        sampled += [True] * made + [False] * 2
        of_turn += [turn] * (made + 2)
        turns.append(Turn("a", f"s{rng.integers(3)}", float(np.round(rng.normal(), 3))))
    count = len(sampled)
    stream = TokenStream(
        ids=np.arange(count, dtype=np.int32),
        sampled=np.asarray(sampled),
        logprobs=np.zeros(count, np.float32),
        versions=np.where(sampled, 0, -1).astype(np.int32),
        turns=np.asarray(of_turn, np.int32),
    )
    return Trajectory(
        f"t{number}", "k", f"g{number // 2}", number, "start", tuple(turns), stream,
        Outcome.FAILED, bool(rng.integers(2)), False,
    )  # fmt: skip


NAMES = ("turn_gae", "token_gae", "group", "gigpo", "outcome+group", "outcome+turn_gae")


@settings(derandomize=True, deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    name=st.sampled_from(NAMES),
    whiten=st.booleans(),
    in_parts=st.booleans(),
)
def test_credit_kept_is_credit_trained(seed: int, name: str, whiten: bool, in_parts: bool) -> None:
    rng = np.random.default_rng(seed)
    batch = [make_trajectory(rng, number) for number in range(2 * int(rng.integers(1, 5)))]
    plan = make_credit(name)
    args: dict[str, Any] = {
        "advantage": plan.estimator,
        "whiten_advantages": whiten and not in_parts,
    }
    config = AgenticPPOConfig(output_dir="unused", use_cpu=True, **args)
    whole = Experience.gather(batch, 0)
    values = rng.normal(size=len(whole.behaviour))
    if in_parts:
        for group in sorted({t.group_id for t in batch}, reverse=True):
            members = [r for r, t in enumerate(batch) if t.group_id == group]
            piece = Experience.gather([batch[r] for r in members], 0)
            piece.values = np.concatenate([values[whole.part(r)] for r in members])
            piece.estimate(config, plan)
            whole.fill_from(piece)
    else:
        whole.values = values
        whole.estimate(config, plan)
    trained = Flat.of(whole, torch.device("cpu")).advantages.numpy()
    with tempfile.TemporaryDirectory() as folder, RunStore(folder) as store:
        store.record_credit(whole.credit())
        kept = [store.credit(t.trajectory_id) for t in batch]
    assert (
        np.concatenate([c.advantages for c in kept if c is not None]).tobytes() == trained.tobytes()
    )
    for r, (trajectory, credit) in enumerate(zip(batch, kept, strict=True)):
        assert credit is not None
        assert trajectory.tokens is not None
        assert len(credit.advantages) == int(trajectory.tokens.sampled[1:].sum())
        assert credit.rewards.tobytes() == whole.rewards[whole.part(r)].astype(np.float32).tobytes()
        np.testing.assert_allclose(credit.rewards.sum(), trajectory.reward, atol=1e-4)
