"""Advantages and returns from rewards and values, in float64 NumPy.

Two readings of an episode. *Token level*: a step is a sampled token; observations are skipped, so
the value after a token is the value before the next *sampled* one. *Turn level*: a step is a turn;
all sampled tokens of a turn share its advantage. Loops over the few thousand steps of a batch cost
milliseconds; a tensor scan over padded rows was rejected, because it needs the mask twice and gains
nothing.

Sources: GAE (arXiv 1506.02438, equation 16); λ by length (VAPO, arXiv 2504.05118, section 4.2); the
group-relative baseline of GRPO (arXiv 2402.03300) and its version without the division (Dr. GRPO,
arXiv 2503.20783).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from agentic_gym.rewards.credit.base import Floats, Ints, turn_starts


def gae(
    rewards: Floats, values: Floats, *, gamma: float | Floats, lam: float, bootstrap: float = 0.0
) -> tuple[Floats, Floats]:
    """Generalised advantage estimation over one episode.

    ``δ_k = r_k + γ·V(s_{k+1}) - V(s_k)``, ``A_k = δ_k + γλ·A_{k+1}``.

    Args:
        rewards: of each step.  # [K]
        values: before each step.  # [K]
        gamma: discount of a step, or of each step by itself.  # [] or [K]
        lam: λ of GAE: 0 is one-step, 1 the whole return.
        bootstrap: value after the last step: 0 where the episode terminated.

    Returns:
        Advantages and their targets ``A + V``.  # [K], [K]
    """
    discounts = np.broadcast_to(np.asarray(gamma, np.float64), rewards.shape)
    advantages = np.zeros(len(rewards))
    following, running = bootstrap, 0.0
    for k in range(len(rewards) - 1, -1, -1):
        discount = float(discounts[k])
        running = rewards[k] + discount * (following + lam * running) - values[k]
        advantages[k] = running
        following = values[k]
    return advantages, advantages + values


def adaptive_lambda(steps: int, alpha: float) -> float:
    """λ that grows with the length of an episode: ``1 - 1/(α·steps)``, at least 0.

    >>> adaptive_lambda(400, 0.05)
    0.95

    Args:
        steps: of the episode.
        alpha: VAPO has 0.05 for tokens. Where a step is a turn, episodes are short: 1 gives 0.9 for ten.
    """
    return max(0.0, 1.0 - 1.0 / max(alpha * steps, 1e-12))


def _gae(
    rewards: Floats,
    values: Floats,
    *,
    gamma: float | Floats,
    lam: float,
    alpha: float,
    bootstrap: float,
) -> tuple[Floats, Floats]:
    """GAE; with ``alpha``, λ by length for the policy and 1 for the critic's targets."""
    if not alpha:
        return gae(rewards, values, gamma=gamma, lam=lam, bootstrap=bootstrap)
    lam = adaptive_lambda(len(rewards), alpha)
    advantages, _ = gae(rewards, values, gamma=gamma, lam=lam, bootstrap=bootstrap)
    _, targets = gae(rewards, values, gamma=gamma, lam=1.0, bootstrap=bootstrap)
    return advantages, targets


def token_gae(
    rewards: Floats,
    values: Floats,
    turns_N: Ints,
    *,
    gamma: float = 1.0,
    token_gamma: float = 1.0,
    lam: float = 0.95,
    alpha: float = 0.0,
    bootstrap: float = 0.0,
) -> tuple[Floats, Floats]:
    """GAE with one step a sampled token.

    Args:
        rewards: of each sampled token.  # [N]
        values: before each sampled token.  # [N]
        turns_N: turn of each sampled token, ascending.  # [N]
        gamma: discount of a turn: between its last token and the first of the next.
        token_gamma: discount of a token.
        lam: λ of GAE.
        alpha: of λ by length; 0 takes ``lam``.
        bootstrap: value after the last token: 0 where the episode terminated.

    Returns:
        Advantages and targets of each sampled token.  # [N], [N]
    """
    ends = np.append(turn_starts(turns_N)[1:], True) if len(turns_N) else np.zeros(0, bool)
    discounts = token_gamma * np.where(ends, gamma, 1.0)
    return _gae(rewards, values, gamma=discounts, lam=lam, alpha=alpha, bootstrap=bootstrap)


def turn_gae(
    rewards: Floats,
    values: Floats,
    turns_N: Ints,
    *,
    gamma: float = 1.0,
    lam: float = 0.95,
    alpha: float = 0.0,
    bootstrap: float = 0.0,
) -> tuple[Floats, Floats]:
    """GAE with one step a turn; the turn's sampled tokens share its advantage and its target.

    Args:
        rewards: of each sampled token (summed over its turn).  # [N]
        values: before each sampled token; the one before a turn's first token counts.  # [N]
        turns_N: turn of each sampled token, ascending.  # [N]
        gamma: discount of a turn.
        lam: λ of GAE.
        alpha: of λ by length; 0 takes ``lam``.
        bootstrap: value after the last turn: 0 where the episode terminated.

    Returns:
        Advantages and targets of each sampled token.  # [N], [N]
    """
    starts = turn_starts(turns_N)
    if not len(starts):
        return np.zeros(0), np.zeros(0)
    step_of = np.cumsum(starts) - 1
    per_turn = np.bincount(step_of, weights=rewards).astype(np.float64)
    advantages, returns = _gae(
        per_turn, values[starts], gamma=gamma, lam=lam, alpha=alpha, bootstrap=bootstrap
    )
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


def horizon_warning(gamma: float, steps: float, *, unit: str = "turn") -> str | None:
    """Says when a discount forgets the end of an episode: ``γ^T < 0.5`` for its T steps.

    The bound is exact, ``0.5^(1/T)``: the popular ``1 - 0.69/T`` is a little below it.

    >>> horizon_warning(0.95, 10) is None
    True
    >>> horizon_warning(0.9, 10)
    'gamma=0.9 leaves 0.35 of a reward after 10 turns, so its beginning hardly hears of it: give 0.934'

    Args:
        gamma: discount of a step.
        steps: of an episode, as observed.
        unit: what a step is.
    """
    if steps <= 0 or gamma**steps >= 0.5:
        return None
    least = math.ceil(0.5 ** (1 / steps) * 1000) / 1000
    return (
        f"gamma={gamma:g} leaves {gamma**steps:.2g} of a reward after {steps:.0f} {unit}s, so its "
        f"beginning hardly hears of it: give {least:g}"
    )
