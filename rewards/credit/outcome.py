"""Rewards where they were earned, or all at the end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agentic_gym.rewards.credit.base import CreditBatch, Floats, Invariance, last_tokens


def earned(batch: CreditBatch) -> Floats:
    """Puts each turn's reward on the last sampled token of that turn: where every assigner starts.

    The reward of a turn without a sampled token (an aborted one) goes to the last sampled token before it,
    so that the sum is always the episode's return.

    Returns:
        Reward of each sampled token.  # [N]
    """
    rewards = np.zeros(len(batch.turns))
    for trajectory, part in zip(batch.trajectories, batch.parts, strict=True):
        turns = batch.turns[part]
        if len(turns) and trajectory.turns:
            own = np.asarray([turn.reward for turn in trajectory.turns], np.float64)
            np.add.at(rewards[part], last_tokens(turns, len(own)), own)
    return rewards


@dataclass(frozen=True, slots=True)
class OutcomeCredit:
    """Everything at the last sampled token: one number for the whole episode, as it came back."""

    invariance: Invariance = Invariance.RETURN
    needs_attention: bool = False

    def assign(self, batch: CreditBatch, rewards_N: Floats) -> Floats:
        """See :class:`~agentic_gym.rewards.credit.base.CreditAssigner`."""
        moved = np.zeros(len(rewards_N))
        for part in batch.parts:
            if part.stop > part.start:
                moved[part.stop - 1] = rewards_N[part].sum()
        return moved
