from __future__ import annotations

import numpy as np

from agentic_gym.trainers.experience import Experience
from agentic_gym.types import Outcome, TokenStream, Trajectory, Turn


def trajectory(number: int, sampled: list[bool]) -> Trajectory:
    mask = np.asarray([False, *sampled])
    stream = TokenStream(
        ids=np.arange(len(mask), dtype=np.int32),
        sampled=mask,
        logprobs=np.where(mask, -1.0, 0.0).astype(np.float32),
        versions=np.where(mask, 0, -1).astype(np.int32),
        turns=np.where(mask, 0, -1).astype(np.int32),
    )
    turns = (Turn("a", "o", 1.0),)
    return Trajectory(
        f"t{number}", "k", "g", number, "p", turns, stream, Outcome.FAILED, True, False
    )


def test_a_batch_takes_over_what_is_known_of_its_parts() -> None:
    trajectories = [
        trajectory(0, [True]),
        trajectory(1, [True, False, True]),
        trajectory(2, [True]),
    ]
    whole = Experience.gather(trajectories, 3)
    # In another order, and one after the other.
    for numbers in ((2, 1), (0,)):
        piece = Experience.gather([trajectories[n] for n in numbers], 3)
        known = np.concatenate([[10.0 * n + i for i in range(1 + (n == 1))] for n in numbers])
        piece.proximal, piece.values, piece.reference = known + 0.1, known + 0.2, known + 0.3
        piece.advantages, piece.returns = known + 0.4, known + 0.5
        piece.rewards = known + 0.6
        piece.value_mask = known % 10 == 0
        piece.last_values = np.asarray([float(n) for n in numbers])
        whole.fill_from(piece)
    expected = np.asarray([0.0, 10.0, 11.0, 20.0])
    names = ("proximal", "values", "reference", "advantages", "returns", "rewards")
    for offset, name in enumerate(names, 1):
        np.testing.assert_allclose(getattr(whole, name), expected + offset / 10)
    assert whole.value_mask.tolist() == [True, True, False, True]
    assert whole.last_values.tolist() == [0.0, 1.0, 2.0]
