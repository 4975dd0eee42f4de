"""Steps compared with other steps that began in the same state (GiGPO).

Source: GiGPO (arXiv 2505.10978, section 4): within a group of episodes of one task, some come through the
same state. What followed is then a fair comparison of what was done there: the advantage of a step is the
group's for the episode, plus ω times the step's own return against the others from that state.
"""

from __future__ import annotations

from collections import Counter
from typing import Literal

import numpy as np

from agentic_gym.rewards.credit.base import CreditBatch, Floats
from agentic_gym.rewards.credit.estimators import group_advantages
from agentic_gym.types import Trajectory


def state_keys(trajectory: Trajectory) -> list[str]:
    """What names the state in which each turn began.

    The environment's own name of the state after the turn before (``info["state_key"]``), or else the
    text that was shown last.

    Returns:
        One key a turn.
    """
    keys = [trajectory.prompt]
    for turn in trajectory.turns[:-1]:
        named = turn.info.get("state_key")
        keys.append(turn.observation if named is None else f"\0{named}")
    return keys[: len(trajectory.turns)]


def gigpo_advantages(
    batch: CreditBatch,
    rewards_N: Floats,
    *,
    omega: float = 1.0,
    scale: Literal["std", "none"] = "std",
) -> Floats:
    """Advantages of the episode within its group, plus those of the step within its state.

    Args:
        batch: with whole groups.
        rewards_N: of each sampled token.  # [N]
        omega: weight of the steps.
        scale: "std" divides by a group's deviation, "none" does not.

    Returns:
        Advantages.  # [N]
    """
    episode = group_advantages(
        [float(rewards_N[part].sum()) for part in batch.parts],
        [t.group_id for t in batch.trajectories],
        scale=scale,
    )
    names: list[str] = []
    to_go: list[float] = []
    where: list[tuple[int, int]] = []
    for row, (trajectory, part) in enumerate(zip(batch.trajectories, batch.parts, strict=True)):
        keys, following = state_keys(trajectory), 0.0
        for turn in range(len(keys) - 1, -1, -1):
            chosen = batch.turns[part] == turn
            following = float(rewards_N[part][chosen].sum()) + batch.gamma * following
            names.append(f"{trajectory.group_id}\0{keys[turn]}")
            to_go.append(following)
            where.append((row, turn))
    steps = group_advantages(to_go, names, scale=scale)
    advantages = np.zeros(len(rewards_N))
    for row, part in enumerate(batch.parts):
        advantages[part] = episode[row]
    for (row, turn), step in zip(where, steps, strict=True):
        part = batch.parts[row]
        advantages[part][batch.turns[part] == turn] += omega * step
    counts = Counter(names)
    shared = sum(counts[name] > 1 for name in names)
    batch.count("gigpo_shared_states", shared / max(1, len(names)))
    return advantages
