"""Which tokens decided an episode, and what attention weights say of the sampled tokens.

An episode of an agent is decided by what it left behind: the last edit that was carried out, or the
submission. Arrays over positions come from :func:`~agentic_gym.trainers.attention_rows.attention_of`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt

from agentic_gym.rewards.credit.attention import normalised
from agentic_gym.types import TokenStream, Trajectory, Turn

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

DECIDING_TOOLS = frozenset({"submit"})
"""Tools whose call decides an episode (``Turn.info["tools"]`` names those that were called)."""

DECIDING_FACTS = frozenset({"edited"})
"""Facts of ``Turn.info`` that say that something lasting was done; a refused edit leaves none."""


def deciding_rows(
    trajectory: Trajectory,
    *,
    tools: Collection[str] = DECIDING_TOOLS,
    facts: Collection[str] = DECIDING_FACTS,
) -> Ints:
    """Positions of the sampled tokens of the turn that decided an episode.

    That is the last turn that called one of ``tools`` or has one of ``facts``; without any, the last.
    Turns without a sampled token are passed over.

    Args:
        trajectory: any.
        tools: names of tools.
        facts: keys of ``Turn.info``.

    Returns:
        Positions in the token stream, ascending, all > 0; empty without a token stream or a sampled
        token that something precedes.  # [R]
    """
    stream = trajectory.tokens
    if stream is None:
        return np.zeros(0, np.int64)
    sampled = np.flatnonzero(stream.sampled[1:]) + 1
    turns_N = stream.turns[sampled]
    spoken = np.unique(turns_N)
    deciding = [
        k
        for k in spoken
        if 0 <= k < len(trajectory.turns) and _decides(trajectory.turns[k], tools, facts)
    ]
    last = deciding[-1:] or spoken[-1:]
    return sampled[np.isin(turns_N, last)].astype(np.int64)


def _decides(turn: Turn, tools: Collection[str], facts: Collection[str]) -> bool:
    called: Any = turn.info.get("tools") or ()
    return any(name in tools for name in called) or any(turn.info.get(fact) for fact in facts)


def token_shares(
    weights_T: Floats, stream: TokenStream, *, before: int | None = None
) -> Floats | None:
    """What share of the attention to sampled tokens falls on each of them.

    Attention to the prompt, to observations and to the first token (where models put what they have no
    use for) drops out.

    Args:
        weights_T: attention to each position.  # [T]
        stream: of the same trajectory; its first token counts as given, as in training.
        before: count only tokens before this position, for instance the first deciding one, so that
            these do not mostly find themselves.

    Returns:
        Shares of the sampled tokens, adding up to 1.  # [N]
        None if nothing falls on them, or a weight is not finite: give no credit by these weights.

    >>> stream = TokenStream(*np.asarray([[5, 6, 7], [0, 1, 1], [0, 0, 0], [0, 0, 0], [-1, 0, 1]]))
    >>> token_shares(np.asarray([0.6, 0.1, 0.3]), stream)
    array([0.25, 0.75])
    """
    sampled = np.flatnonzero(stream.sampled[1:]) + 1
    chosen = np.asarray(weights_T, np.float64)[sampled]
    if before is not None:
        chosen = np.where(sampled < before, chosen, 0.0)
    return normalised(chosen)


def turn_shares(shares_N: Floats, turns_N: Ints, num_turns: int) -> Floats:
    """Adds up the shares of each turn's tokens.

    Args:
        shares_N: of the sampled tokens; may have further axes in front.  # [..., N]
        turns_N: turn of each.  # [N]
        num_turns: how many turns there are.

    Returns:
        One number a turn; 0 where nothing was sampled.  # [..., K]

    >>> turn_shares(np.asarray([0.25, 0.5, 0.25]), np.asarray([0, 0, 2]), 3)
    array([0.75, 0.  , 0.25])
    """
    shares: Floats = shares_N @ (turns_N[:, None] == np.arange(num_turns)).astype(np.float64)
    return shares
