"""Advantages and returns of trajectories, in float64 NumPy.

Two readings of an episode. *Token level*: a step is a sampled token; observations are skipped, so
the value after a token is the value before the next *sampled* one. *Turn level*: a step is a turn;
all sampled tokens of a turn share its advantage. Loops over the few thousand steps of a batch cost
milliseconds; a tensor scan over padded rows was rejected, because it needs the mask twice and gains
nothing.

Sources: GAE (arXiv 1506.02438, equation 16); the group-relative baseline of GRPO (arXiv 2402.03300)
and its version without the division (Dr. GRPO, arXiv 2503.20783).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from agentic_gym.types import Trajectory

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def token_rewards(trajectory: Trajectory, turns_N: Ints) -> Floats:
    """Puts each turn's reward on the last sampled token of that turn.

    The reward of a turn without a sampled token (an aborted one) goes to the last sampled token
    before it, so that the sum is always the episode's return.

    Args:
        trajectory: with its turns.
        turns_N: turn of each sampled token, ascending.  # [N]

    Returns:
        Reward of each sampled token.  # [N]
    """
    rewards = np.zeros(len(turns_N))
    if not len(turns_N):
        return rewards
    for index, turn in enumerate(trajectory.turns):
        position = int(np.searchsorted(turns_N, index, side="right")) - 1
        rewards[max(position, 0)] += turn.reward
    return rewards


def gae(
    rewards: Floats, values: Floats, *, gamma: float, lam: float, bootstrap: float = 0.0
) -> tuple[Floats, Floats]:
    """Generalised advantage estimation over one episode.

    ``δ_k = r_k + γ·V(s_{k+1}) - V(s_k)``, ``A_k = δ_k + γλ·A_{k+1}``.

    Args:
        rewards: of each step.  # [K]
        values: before each step.  # [K]
        gamma: discount of a step.
        lam: λ of GAE: 0 is one-step, 1 the whole return.
        bootstrap: value after the last step: 0 where the episode terminated.

    Returns:
        Advantages and their targets ``A + V``.  # [K], [K]
    """
    advantages = np.zeros(len(rewards))
    following, running = bootstrap, 0.0
    for k in range(len(rewards) - 1, -1, -1):
        running = rewards[k] + gamma * following - values[k] + gamma * lam * running
        advantages[k] = running
        following = values[k]
    return advantages, advantages + values


def turn_starts(turns_N: Ints) -> npt.NDArray[np.bool_]:
    """True at the first sampled token of each turn, where the value of a turn is read.

    Args:
        turns_N: turn of each sampled token, ascending.  # [N]
    """
    starts = np.ones(len(turns_N), dtype=bool)
    starts[1:] = turns_N[1:] != turns_N[:-1]
    return starts


def turn_gae(
    rewards: Floats,
    values: Floats,
    turns_N: Ints,
    *,
    gamma: float,
    lam: float,
    bootstrap: float = 0.0,
) -> tuple[Floats, Floats]:
    """GAE with one step a turn; the turn's sampled tokens share its advantage and its target.

    Args:
        rewards: of each sampled token (summed over its turn).  # [N]
        values: before each sampled token; the one before a turn's first token counts.  # [N]
        turns_N: turn of each sampled token, ascending.  # [N]
        gamma: discount of a turn.
        lam: λ of GAE.
        bootstrap: value after the last turn: 0 where the episode terminated.

    Returns:
        Advantages and targets of each sampled token.  # [N], [N]
    """
    starts = turn_starts(turns_N)
    if not len(starts):
        return np.zeros(0), np.zeros(0)
    step_of = np.cumsum(starts) - 1
    per_turn = np.bincount(step_of, weights=rewards).astype(np.float64)
    advantages, returns = gae(per_turn, values[starts], gamma=gamma, lam=lam, bootstrap=bootstrap)
    return advantages[step_of], returns[step_of]


def group_advantages(
    returns: Sequence[float],
    groups: Sequence[str],
    included: Sequence[bool] | None = None,
    *,
    scale: Literal["std", "none"] = "std",
) -> Floats:
    """Return minus the mean return of the group, by the group's deviation if asked.

    Trajectories that are left out (infrastructure errors) shift neither the mean nor the deviation
    and get 0. A group of one, and a group whose returns are all equal, get exactly 0.

    Args:
        returns: of each trajectory.  # [G]
        groups: group of each trajectory.  # [G]
        included: False for those left out; None for none.  # [G]
        scale: "std" divides by the group's deviation, "none" does not.

    Returns:
        Advantage of each trajectory.  # [G]
    """
    scores = np.asarray(returns, dtype=np.float64)
    kept = np.ones(len(scores), bool) if included is None else np.asarray(included, dtype=bool)
    names = np.asarray(groups)
    advantages = np.zeros(len(scores))
    for name in dict.fromkeys(groups):
        member = (names == name) & kept
        own = scores[member]
        # Equality is tested, not a small deviation: rounding of the mean must not become a signal.
        if not len(own) or bool((own == own[0]).all()):
            continue
        centred = own - own.mean()
        advantages[member] = centred / own.std() if scale == "std" else centred
    return advantages


def whiten(
    values: Floats, *, mean: float | None = None, std: float | None = None, centre: bool = True
) -> Floats:
    """Shifts to mean 0 and scales to deviation 1; constant input becomes exactly 0 (or keeps its size).

    Args:
        values: what counts, already selected by the mask.  # [N]
        mean: of all devices; None for that of ``values``.
        std: of all devices; None for that of ``values``.
        centre: False scales only.
    """
    if not len(values):
        return values
    mean = float(values.mean()) if mean is None else mean
    std = float(values.std()) if std is None else std
    shifted = values - mean if centre else values
    # A deviation at the level of rounding is no signal: it would be blown up to size 1.
    if std <= 1e-8 * max(1.0, abs(mean)):
        return np.zeros_like(values) if centre else values
    return shifted / std


def explained_variance(values: Floats, returns: Floats) -> float:
    """``1 - Var(returns - values) / Var(returns)``; 0 when the returns do not vary.

    Args:
        values: predictions.  # [N]
        returns: targets.  # [N]
    """
    spread = float(np.var(returns)) if len(returns) else 0.0
    return 0.0 if spread < 1e-12 else 1.0 - float(np.var(returns - values)) / spread
